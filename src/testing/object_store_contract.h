// What every object::ObjectStore promises (see object/object_store.h), for stores and decorators alike. Instantiate
// with factories that give an empty store:
//
//   INSTANTIATE_TEST_SUITE_P(Memory, ObjectStoreContract, ::testing::Values(ObjectStoreCase{"memory", make_memory}));
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "codec/crc32c.h"
#include "object/object_store.h"

namespace cairn::testing {

struct ObjectStoreFixture {
  virtual ~ObjectStoreFixture() = default;
  virtual object::ObjectStore& store() = 0;
};

struct ObjectStoreCase {
  std::string name;
  std::function<std::unique_ptr<ObjectStoreFixture>()> make;
};
inline void PrintTo(const ObjectStoreCase& c, std::ostream* out) {
  *out << c.name;
}

class ObjectStoreContract : public ::testing::TestWithParam<ObjectStoreCase> {
 protected:
  void SetUp() override { fixture_ = GetParam().make(); }
  object::ObjectStore& store() { return fixture_->store(); }
  static object::ObjectKey key(std::string_view text) { return object::ObjectKey::of(text); }
  static object::ByteView bytes(std::string_view text) { return codec::as_bytes(text); }
  std::string read(std::string_view name) {
    auto got = store().get_all(key(name), 64 << 20, never_);
    return got ? std::string(got->begin(), got->end()) : "<" + got.error().to_string() + ">";
  }
  template <class T>
  static Code code_of(const T& result) {
    return result ? Code::kInternal : result.error().code();
  }
  std::vector<std::string> list_all(const std::string& prefix, size_t limit) {
    std::vector<std::string> keys;
    std::string after;
    for (;;) {
      auto page = store().list(prefix, after, limit, never_);
      EXPECT_TRUE(page) << page.error().to_string();
      if (!page) return keys;
      EXPECT_LE(page->objects.size(), limit);
      for (const auto& object : page->objects) keys.push_back(object.key.text());
      if (!page->more) return keys;
      after = keys.back();
    }
  }
  Deadline never_ = Deadline::never();
  std::unique_ptr<ObjectStoreFixture> fixture_;
};

TEST_P(ObjectStoreContract, PutsAndGetsRanges) {
  ASSERT_TRUE(store().put_if_absent(key("s/ab/p/01"), bytes("hello world"), never_));
  EXPECT_EQ(read("s/ab/p/01"), "hello world");
  EXPECT_EQ(codec::as_text(*store().get(key("s/ab/p/01"), 6, 5, never_)), "world");
  EXPECT_TRUE(store().get(key("s/ab/p/01"), 11, 0, never_)->empty());
  auto info = store().head(key("s/ab/p/01"), never_);
  ASSERT_TRUE(info);
  EXPECT_EQ(info->size, 11u);
  if (info->crc_known) {
    EXPECT_EQ(info->crc32c, codec::crc32c(bytes("hello world")));
  }
}

TEST_P(ObjectStoreContract, AReadPastTheEndIsDamage) {
  ASSERT_TRUE(store().put_if_absent(key("a"), bytes("12345"), never_));
  EXPECT_EQ(code_of(store().get(key("a"), 0, 6, never_)), Code::kDataCorrupt);
  EXPECT_EQ(code_of(store().get(key("a"), 6, 0, never_)), Code::kDataCorrupt);
  EXPECT_EQ(code_of(store().get(key("a"), UINT64_MAX, 2, never_)), Code::kDataCorrupt);
  EXPECT_EQ(code_of(store().get_all(key("a"), 4, never_)), Code::kLimitExceeded);
}

TEST_P(ObjectStoreContract, NothingIsEverReplaced) {
  ASSERT_TRUE(store().put_if_absent(key("a"), bytes("first"), never_));
  EXPECT_EQ(code_of(store().put_if_absent(key("a"), bytes("other"), never_)), Code::kObjectExists);
  auto writer = store().create(key("a"), 5, never_);
  if (writer) {
    ASSERT_TRUE((*writer)->append(bytes("third")));
    EXPECT_EQ(code_of((*writer)->commit()), Code::kObjectExists);
  } else {
    EXPECT_EQ(code_of(writer), Code::kObjectExists);
  }
  EXPECT_EQ(read("a"), "first");
}

TEST_P(ObjectStoreContract, AbsentObjects) {
  EXPECT_EQ(code_of(store().get(key("no"), 0, 1, never_)), Code::kObjectNotFound);
  EXPECT_EQ(code_of(store().head(key("no"), never_)), Code::kObjectNotFound);
  EXPECT_EQ(code_of(store().open(key("no"), never_)), Code::kObjectNotFound);
  EXPECT_EQ(code_of(store().head(key("s/deep/no"), never_)), Code::kObjectNotFound);
  EXPECT_TRUE(store().remove(key("no"), never_));
  EXPECT_TRUE(store().remove(key("s/deep/no"), never_));
}

TEST_P(ObjectStoreContract, RemovedObjectsAreGone) {
  ASSERT_TRUE(store().put_if_absent(key("a"), bytes("x"), never_));
  ASSERT_TRUE(store().remove(key("a"), never_));
  EXPECT_EQ(code_of(store().head(key("a"), never_)), Code::kObjectNotFound);
  EXPECT_TRUE(store().remove(key("a"), never_));
  EXPECT_TRUE(list_all("", 10).empty());
}

TEST_P(ObjectStoreContract, WritersStreamAndAbort) {
  {
    auto writer = store().create(key("w/1"), 6, never_);
    ASSERT_TRUE(writer) << writer.error().to_string();
    ASSERT_TRUE((*writer)->append(bytes("abc")));
    EXPECT_EQ(code_of(store().head(key("w/1"), never_)), Code::kObjectNotFound) << "seen before commit";
    ASSERT_TRUE((*writer)->append(bytes("def")));
    ASSERT_TRUE((*writer)->commit());
    EXPECT_FALSE((*writer)->commit());
  }
  EXPECT_EQ(read("w/1"), "abcdef");
  {
    auto writer = store().create(key("w/2"), 6, never_);
    ASSERT_TRUE(writer);
    ASSERT_TRUE((*writer)->append(bytes("abc")));
  }
  EXPECT_EQ(code_of(store().head(key("w/2"), never_)), Code::kObjectNotFound);
  EXPECT_EQ(list_all("", 10), std::vector<std::string>{"w/1"});
}

TEST_P(ObjectStoreContract, AWriterHoldsToItsDeclaredSize) {
  auto longer = store().create(key("a"), 3, never_);
  ASSERT_TRUE(longer);
  EXPECT_EQ(code_of((*longer)->append(bytes("1234"))), Code::kRequestInvalid);
  EXPECT_EQ(code_of((*longer)->commit()), Code::kRequestInvalid) << "the first error stays";
  auto shorter = store().create(key("a"), 3, never_);
  ASSERT_TRUE(shorter);
  ASSERT_TRUE((*shorter)->append(bytes("12")));
  EXPECT_EQ(code_of((*shorter)->commit()), Code::kRequestInvalid);
  EXPECT_EQ(code_of(store().head(key("a"), never_)), Code::kObjectNotFound);
}

TEST_P(ObjectStoreContract, ReadersReadOnAfterRemoval) {
  object::Bytes data(3 << 20);
  SeededRandom(5).fill(data);
  ASSERT_TRUE(store().put_if_absent(key("big"), data, never_));
  auto reader = store().open(key("big"), never_);
  ASSERT_TRUE(reader);
  ASSERT_TRUE(store().remove(key("big"), never_));
  EXPECT_EQ((*reader)->size(), data.size());
  object::Bytes copy(data.size());
  ASSERT_TRUE((*reader)->read_exactly(0, copy));
  EXPECT_EQ(copy, data);
  uint8_t byte;
  EXPECT_EQ(*(*reader)->read_at(data.size(), {&byte, 1}), 0u);
  EXPECT_EQ(code_of((*reader)->read_exactly(data.size() - 1, std::span<uint8_t>(copy).first(2))), Code::kDataCorrupt);
}

TEST_P(ObjectStoreContract, EmptyObjects) {
  ASSERT_TRUE(store().put_if_absent(key("empty"), {}, never_));
  EXPECT_EQ(read("empty"), "");
  EXPECT_EQ(store().head(key("empty"), never_)->size, 0u);
}

TEST_P(ObjectStoreContract, ListsInKeyOrderByPages) {
  const std::vector<std::string> keys = {"a",     "a-b/x", "a.b",  "b/c",    "b/c-d", "b/c.d/e", "b/c/d",
                                         "b/c/e", "b/c0",  "ba/x", "p/0/00", "p/1/0", "p/1/1"};
  // "b/c" the object and "b/c/…" the folder cannot both be files of a directory.
  std::vector<std::string> expected;
  for (const std::string& text : keys) {
    if (text == "b/c" || text == "a") continue;
    ASSERT_TRUE(store().put_if_absent(key(text), bytes("x"), never_)) << text;
    expected.push_back(text);
  }
  std::sort(expected.begin(), expected.end());
  for (size_t limit : {size_t{1}, size_t{2}, size_t{3}, size_t{100}}) EXPECT_EQ(list_all("", limit), expected) << limit;
  EXPECT_EQ(list_all("b/c", 2), (std::vector<std::string>{"b/c-d", "b/c.d/e", "b/c/d", "b/c/e", "b/c0"}));
  EXPECT_EQ(list_all("b/c/", 1), (std::vector<std::string>{"b/c/d", "b/c/e"}));
  EXPECT_EQ(list_all("p/1/0", 9), std::vector<std::string>{"p/1/0"});
  EXPECT_TRUE(list_all("q", 9).empty());
  EXPECT_EQ(store().list("", "b/c/d", 1, never_)->objects.front().key.text(), "b/c/e");
  EXPECT_EQ(store().list("b/", "a", 1, never_)->objects.front().key.text(), "b/c-d");
  EXPECT_EQ(store().list("", "", 1, never_)->objects.front().size, 1u);
}

TEST_P(ObjectStoreContract, DeadlinesAndCancel) {
  ASSERT_TRUE(store().put_if_absent(key("a"), bytes("x"), never_));
  Deadline over = Deadline::after(Duration(0));
  EXPECT_EQ(code_of(store().get(key("a"), 0, 1, over)), Code::kDeadlineExceeded);
  EXPECT_EQ(code_of(store().put_if_absent(key("b"), bytes("x"), over)), Code::kDeadlineExceeded);
  CancelToken token;
  token.cancel();
  EXPECT_EQ(code_of(store().head(key("a"), Deadline::never(token))), Code::kCancelled);
}

TEST_P(ObjectStoreContract, OfManyPutsOfOneKeyOneWins) {
  for (int round = 0; round < 8; ++round) {
    object::ObjectKey contended = key("race/" + std::to_string(round));
    std::vector<Code> codes(4, Code::kInternal);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < codes.size(); ++i) {
      threads.emplace_back([&, i] {
        Status put = store().put_if_absent(contended, bytes(std::string(1000 + i, 'a')), never_);
        codes[i] = put ? Code::kInternal : put.error().code();
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(std::count(codes.begin(), codes.end(), Code::kObjectExists), 3);
    size_t winner = static_cast<size_t>(std::find(codes.begin(), codes.end(), Code::kInternal) - codes.begin());
    ASSERT_LT(winner, codes.size());
    EXPECT_EQ(store().head(contended, never_)->size, 1000 + winner);
  }
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ObjectStoreContract);

}  // namespace cairn::testing
