// What is asked again, when it stops, and that "exists" is believed only after a look.
#include "object/retrying_store.h"

#include <gtest/gtest.h>

#include "object/memory_store.h"
#include "testing/faulty_object_store.h"

namespace cairn::object {
namespace {

using testing::FaultPlan;
using testing::FaultyObjectStore;

class RetryingStoreTest : public ::testing::Test {
 protected:
  ObjectKey key_ = ObjectKey::of("a");
  ByteView bytes(std::string_view text) { return codec::as_bytes(text); }
  MemoryStore memory_;
  ManualClock clock_;
  SeededRandom random_{1};
};

TEST_F(RetryingStoreTest, AppliedButFailedIsFoundToBeOurs) {
  FaultPlan plan;
  plan.applied_but_failed = 1000;
  FaultyObjectStore faulty(memory_, clock_, plan);
  RetryingStore store(faulty, clock_, random_);
  EXPECT_TRUE(store.put_if_absent(key_, bytes("mine"), Deadline::never()));
  auto writer = store.create(ObjectKey::of("w"), 4, Deadline::never());
  ASSERT_TRUE(writer);
  ASSERT_TRUE((*writer)->append(bytes("mine")));
  EXPECT_TRUE((*writer)->commit());
  EXPECT_EQ(memory_.object_count(), 2u);
}

TEST_F(RetryingStoreTest, SomebodyElsesObjectIsNotTakenForOurs) {
  // Fails without storing, so that another writer can come in between.
  class Intruder final : public ObjectStore {
   public:
    explicit Intruder(MemoryStore& inner) : inner_(inner) {}
    Status put_if_absent(const ObjectKey& key, ByteView data, const Deadline& deadline) override {
      if (calls_++ > 0) return inner_.put_if_absent(key, data, deadline);
      EXPECT_TRUE(inner_.put_if_absent(key, codec::as_bytes("ours"), deadline));
      return Error(Code::kOutcomeUnknown, "the connection broke");
    }
    Result<std::unique_ptr<ObjectWriter>> create(const ObjectKey& k, uint64_t s, const Deadline& d) override {
      return inner_.create(k, s, d);
    }
    Result<std::unique_ptr<ObjectReader>> open(const ObjectKey& k, const Deadline& d) override {
      return inner_.open(k, d);
    }
    Result<Bytes> get(const ObjectKey& k, uint64_t o, uint64_t l, const Deadline& d) override {
      return inner_.get(k, o, l, d);
    }
    Result<ObjectInfo> head(const ObjectKey& k, const Deadline& d) override {
      CAIRN_TRY(ObjectInfo info, inner_.head(k, d));
      info.crc_known = false;  // so that the bytes are read back
      return info;
    }
    Status remove(const ObjectKey& k, const Deadline& d) override { return inner_.remove(k, d); }
    Result<ListPage> list(const std::string& p, const std::string& a, size_t l, const Deadline& d) override {
      return inner_.list(p, a, l, d);
    }

   private:
    MemoryStore& inner_;
    int calls_ = 0;
  };
  Intruder intruder(memory_);
  RetryingStore store(intruder, clock_, random_);
  EXPECT_EQ(store.put_if_absent(key_, bytes("mine"), Deadline::never()).error().code(), Code::kObjectExists);
  Intruder same(memory_);
  RetryingStore lucky(same, clock_, random_);
  EXPECT_TRUE(lucky.put_if_absent(ObjectKey::of("b"), bytes("ours"), Deadline::never()))
      << "equal bytes are as good as ours";
}

TEST_F(RetryingStoreTest, AFirstAnswerOfExistsIsBelieved) {
  ASSERT_TRUE(memory_.put_if_absent(key_, bytes("same"), Deadline::never()));
  RetryingStore store(memory_, clock_, random_);
  EXPECT_EQ(store.put_if_absent(key_, bytes("same"), Deadline::never()).error().code(), Code::kObjectExists);
}

TEST_F(RetryingStoreTest, StopsAtTheDeadline) {
  FaultPlan plan;
  plan.fail = 1000;
  FaultyObjectStore faulty(memory_, clock_, plan);
  RetryOptions options;
  options.attempts_max = 1'000'000;
  RetryingStore store(faulty, clock_, random_, options);
  Duration start = clock_.monotonic();
  EXPECT_EQ(store.head(key_, Deadline::after(seconds(30), clock_)).error().code(), Code::kStoreUnavailable);
  EXPECT_LE(clock_.monotonic() - start, seconds(30));
  EXPECT_GE(clock_.monotonic() - start, seconds(20));
  EXPECT_EQ(store.put_if_absent(key_, bytes("x"), Deadline::after(seconds(30), clock_)).error().code(),
            Code::kOutcomeUnknown);
}

TEST_F(RetryingStoreTest, StopsAfterItsAttemptsAndAtOnceWhenItIsNoUse) {
  FaultPlan plan;
  plan.fail = 1000;
  FaultyObjectStore faulty(memory_, clock_, plan);
  RetryingStore store(faulty, clock_, random_);
  EXPECT_FALSE(store.head(key_, Deadline::never()));
  EXPECT_EQ(faulty.faults(), static_cast<uint64_t>(RetryOptions().attempts_max));
  faulty.set_enabled(false);
  Duration before = clock_.monotonic();
  EXPECT_EQ(store.head(key_, Deadline::never()).error().code(), Code::kObjectNotFound);
  EXPECT_EQ(clock_.monotonic(), before);
}

TEST_F(RetryingStoreTest, ShortReadsAreReadAgain) {
  Bytes data(100'000);
  random_.fill(data);
  ASSERT_TRUE(memory_.put_if_absent(key_, data, Deadline::never()));
  FaultPlan plan;
  plan.short_read = 600;
  FaultyObjectStore faulty(memory_, clock_, plan);
  RetryingStore store(faulty, clock_, random_);
  for (int i = 0; i < 50; ++i) {
    auto got = store.get(key_, 10, 90'000, Deadline::never());
    ASSERT_TRUE(got) << plan.to_string();
    EXPECT_TRUE(codec::equal(*got, ByteView(data).subspan(10, 90'000)));
  }
}

TEST(FaultyObjectStore, DamagesWhatIsReadAndNeverWhatIsStored) {
  MemoryStore memory;
  ManualClock clock;
  ASSERT_TRUE(memory.put_if_absent(ObjectKey::of("a"), codec::as_bytes("pristine"), Deadline::never()));
  FaultPlan plan;
  plan.corrupt_read = 1000;
  FaultyObjectStore faulty(memory, clock, plan);
  EXPECT_NE(codec::as_text(*faulty.get(ObjectKey::of("a"), 0, 8, Deadline::never())), "pristine");
  EXPECT_EQ(codec::as_text(*memory.get(ObjectKey::of("a"), 0, 8, Deadline::never())), "pristine");
  FaultyObjectStore again(memory, clock, plan);
  FaultyObjectStore same(memory, clock, plan);
  EXPECT_EQ(*again.get(ObjectKey::of("a"), 0, 8, Deadline::never()),
            *same.get(ObjectKey::of("a"), 0, 8, Deadline::never()));
}

}  // namespace
}  // namespace cairn::object
