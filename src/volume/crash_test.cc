// The server dies at each step of a publication; another one takes up its work.
#include <functional>

#include "catalog/publish_ops.h"
#include "testing/faulty_object_store.h"
#include "volume/history.h"
#include "volume/volume_fixture.h"

namespace cairn::volume {
namespace {

using testing::Contents;

class CrashTest : public VolumeTest {
 protected:
  // The names of the steps of a plain publication, in order.
  std::vector<std::string> steps() {
    std::vector<std::string> names;
    VolumeInfo volume = make_volume("steps");
    auto upload = Uploads(context()).open(request_for(volume.id));
    EXPECT_TRUE(upload);
    auto request = prepare(*upload, {{"a", "alpha"}});
    EXPECT_TRUE(request);
    Publisher publisher(context());
    publisher.set_step_hook([&](std::string_view step) {
      names.emplace_back(step);
      return ok();
    });
    EXPECT_TRUE(publisher.publish(*request, soon()));
    return names;
  }
  static Error crash() { return Error(Code::kInternal, "crash"); }
};
CAIRN_INSTANTIATE_CATALOG(CrashTest);

TEST_P(CrashTest, AskingAgainFinishesFromEveryStep) {
  std::vector<std::string> names = steps();
  ASSERT_GE(names.size(), 10u);
  int number = 0;
  for (const std::string& where : names) {
    SCOPED_TRACE(where);
    VolumeInfo volume = make_volume("v" + std::to_string(++number));
    ASSERT_OK(client().put_files(volume.id, alice_.user, {{"base", "base"}}));
    auto upload = Uploads(context()).open(request_for(volume.id));
    ASSERT_OK(upload);
    auto request = prepare(*upload, {{"a", "alpha"}});
    ASSERT_OK(request);
    {
      Publisher dying(context());
      dying.set_step_hook([&](std::string_view step) -> Status { return step == where ? Status(crash()) : ok(); });
      EXPECT_CODE(Code::kInternal, dying.publish(*request, soon()));
    }
    Contents before = {{"base", "base"}};
    Contents after = {{"a", "alpha"}, {"base", "base"}};
    EXPECT_EQ(*client().read(volume.id), where == "swapped" ? after : before);
    Context restarted(db(), store_, clock(), random(), settings());
    Publisher publisher(restarted);
    ASSERT_OK(publisher.drop_claims());
    auto done = publisher.publish(*request, soon());
    ASSERT_OK(done);
    EXPECT_EQ(done->snapshot, 2);
    EXPECT_EQ(*client().read(volume.id), after);
    ASSERT_OK(Uploads(context()).close(upload->id, upload->lease.secret));
    // What the dead one left behind is garbage, what stays is whole.
    GarbageCollector gc(context());
    for (int round = 0; round < 2; ++round) {
      ASSERT_OK(gc.run(volume.store, soon()));
      run_time(hours(25));
    }
    EXPECT_EQ(*client().read(volume.id), after);
  }
}

TEST_P(CrashTest, AnotherServerResumesOnceTheClaimIsOld) {
  VolumeInfo volume = make_volume("data");
  auto upload = Uploads(context()).open(request_for(volume.id));
  ASSERT_OK(upload);
  auto request = prepare(*upload, {{"a", "alpha"}});
  ASSERT_OK(request);
  Publisher dying(context());
  dying.set_step_hook([](std::string_view step) -> Status { return step == "record put" ? Status(crash()) : ok(); });
  EXPECT_CODE(Code::kInternal, dying.publish(*request, soon()));
  Publisher publisher(context());
  EXPECT_EQ(*publisher.resume_abandoned(soon()), 0);
  EXPECT_CODE(Code::kBusy, publisher.publish(*request, Deadline::after(seconds(1), clock())));
  // Nor does a long deadline make a call wait for long: the client repeats itself meanwhile.
  Deadline long_one = Deadline::after(hours(1), clock());
  EXPECT_CODE(Code::kBusy, publisher.publish(*request, long_one));
  EXPECT_GT(long_one.remaining(), minutes(59));
  run_time(seconds(40));
  EXPECT_EQ(*publisher.resume_abandoned(soon()), 1);
  EXPECT_EQ(*client().read(volume.id), (Contents{{"a", "alpha"}}));
  EXPECT_EQ(publisher.publish(*request, soon())->snapshot, 1);
  EXPECT_EQ(*publisher.resume_abandoned(soon()), 0);
}

// A clock of a store that takes its time: each wait is given to `waited`.
class ClockOfSlowStore final : public Clock {
 public:
  ClockOfSlowStore(Clock& clock, std::function<void(Duration)> waited) : clock_(clock), waited_(std::move(waited)) {}
  Time now() override { return clock_.now(); }
  Duration monotonic() override { return clock_.monotonic(); }
  void sleep_for(Duration duration) override { waited_(duration); }

 private:
  Clock& clock_;
  std::function<void(Duration)> waited_;
};

// Many files, each in a pack of its own: one call to the store or more for each of them.
class SlowStoreTest : public CrashTest {
 protected:
  Result<PublishRequest> prepare_many(VolumeId volume, int count) {
    CAIRN_TRY(OpenUpload upload, Uploads(context()).open(request_for(volume)));
    testing::Changes changes;
    for (int i = 0; i < count; ++i) {
      std::string text = "contents " + std::to_string(i);
      CAIRN_TRY(auto chunks, client().send(upload, {text}));
      changes.puts["f" + std::to_string(i)] = {text, chunks.at(text)};
    }
    return request_of(upload, changes);
  }
  // Publishes `request` over a store of which each call takes `each`, during which `meanwhile` runs.
  Result<Publication> publish_slowly(const PublishRequest& request, Duration each,
                                     const std::function<void()>& meanwhile) {
    ClockOfSlowStore waiting(clock(), [&](Duration duration) {
      run_time(duration);
      meanwhile();
    });
    testing::FaultPlan plan;
    plan.delay = 1000;
    plan.delay_by = each;
    testing::FaultyObjectStore slow(store_, waiting, plan);
    Context at_slow_store(db(), slow, clock(), random(), settings());
    return Publisher(at_slow_store).publish(request, Deadline::after(hours(1), clock()));
  }
};
CAIRN_INSTANTIATE_CATALOG(SlowStoreTest);

TEST_P(SlowStoreTest, WorkKeepsItsClaim) {
  VolumeInfo volume = make_volume("data");
  auto request = prepare_many(volume.id, 20);
  ASSERT_OK(request);
  Publisher other(context());
  int64_t resumed = 0;
  Duration began = clock().monotonic();
  auto done = publish_slowly(*request, seconds(5), [&] {
    auto taken = other.resume_abandoned(soon());
    ASSERT_OK(taken);
    resumed += *taken;
  });
  ASSERT_OK(done);
  EXPECT_GT(clock().monotonic() - began, 3 * settings().publish_claim_time);
  EXPECT_EQ(resumed, 0);
  EXPECT_EQ(client().read(volume.id)->size(), 20u);
}

// A single call takes longer than the claim lasts, and whoever takes the claim gets no further.
TEST_P(SlowStoreTest, ATakenClaimEndsNoWork) {
  VolumeInfo volume = make_volume("data");
  auto request = prepare_many(volume.id, 3);
  ASSERT_OK(request);
  Publisher other(context());
  int taken = 0;
  other.set_step_hook([&](std::string_view step) -> Status {
    if (step != "merge") return ok();
    ++taken;
    return crash();
  });
  auto done = publish_slowly(*request, seconds(40), [&] { (void)other.resume_abandoned(soon()); });
  ASSERT_OK(done);
  EXPECT_GT(taken, 0);
  EXPECT_EQ(client().read(volume.id)->size(), 3u);
}

// And when the taker has finished it, its result is everybody's.
TEST_P(SlowStoreTest, AFinishedOneIsNotGoneOnWith) {
  VolumeInfo volume = make_volume("data");
  auto request = prepare_many(volume.id, 3);
  ASSERT_OK(request);
  Publisher other(context());
  int64_t resumed = 0;
  int calls_after = 0;
  auto done = publish_slowly(*request, seconds(40), [&] {
    if (resumed > 0) ++calls_after;
    auto taken = other.resume_abandoned(soon());
    ASSERT_OK(taken);
    resumed += *taken;
  });
  ASSERT_OK(done);
  EXPECT_EQ(resumed, 1);
  EXPECT_LE(calls_after, 2) << "the rest of one pack's index";
  EXPECT_EQ(done->snapshot, 1);
  EXPECT_EQ(client().read(volume.id)->size(), 3u);
}

TEST_P(CrashTest, ResumeFailsCleanlyWhenTheUploadIsGone) {
  VolumeInfo volume = make_volume("data");
  auto upload = Uploads(context()).open(request_for(volume.id));
  ASSERT_OK(upload);
  auto request = prepare(*upload, {{"a", "alpha"}});
  ASSERT_OK(request);
  Publisher dying(context());
  dying.set_step_hook([](std::string_view step) -> Status { return step == "swap" ? Status(crash()) : ok(); });
  EXPECT_CODE(Code::kInternal, dying.publish(*request, soon()));
  run_time(minutes(20));
  ASSERT_OK(Leases(context()).break_lease(volume.id, "bob"));
  Publisher publisher(context());
  EXPECT_EQ(*publisher.resume_abandoned(soon()), 1);
  EXPECT_CODE(Code::kLeaseLost, publisher.publish(*request, soon()));
  EXPECT_TRUE(client().read(volume.id)->empty());
  ASSERT_OK(client().put_files(volume.id, alice_.user, {{"b", "beta"}}));
}

TEST_P(CrashTest, RemovalThatDiedGoesOn) {
  VolumeInfo volume = make_volume("data");
  ASSERT_OK(client().put_files(volume.id, alice_.user, {{"a", "alpha"}, {"b", "beta"}}));
  RemoveRequest removal;
  removal.request = RequestId::random(random());
  removal.volume = volume.id;
  removal.actor = alice_;
  removal.paths = {"a"};
  Publisher dying(context());
  dying.set_step_hook([](std::string_view step) -> Status { return step == "nodes put" ? Status(crash()) : ok(); });
  EXPECT_FALSE(dying.remove(removal, soon()));
  Publisher publisher(context());
  ASSERT_OK(publisher.drop_claims());
  ASSERT_OK(publisher.remove(removal, soon()));
  EXPECT_EQ(*client().read(volume.id), (Contents{{"b", "beta"}}));
  EXPECT_FALSE(Leases(context()).current(volume.id)->has_value());
}

// Who lost his claim and the race finds the lease that he went by ended, and is done all the same.
TEST_P(CrashTest, RemovalThatAnotherFinishedIsDone) {
  VolumeInfo volume = make_volume("data");
  ASSERT_OK(client().put_files(volume.id, alice_.user, {{"a", "alpha"}, {"b", "beta"}}));
  RemoveRequest removal;
  removal.request = RequestId::random(random());
  removal.volume = volume.id;
  removal.actor = alice_;
  removal.paths = {"a"};
  Publisher other(context());
  Publisher slow(context());
  slow.set_step_hook([&](std::string_view step) -> Status {
    if (step != "swap") return ok();
    run_time(seconds(40));
    EXPECT_EQ(*other.resume_abandoned(soon()), 1);
    return ok();
  });
  auto done = slow.remove(removal, soon());
  ASSERT_OK(done);
  EXPECT_EQ(done->snapshot, 2);
  EXPECT_EQ(*client().read(volume.id), (Contents{{"b", "beta"}}));
}

// Calls to the store fail, happen and are said to have failed, or come back short and damaged: a publication either
// says what is wrong or is whole, and asking again with the same request id gets it through once the store behaves.
TEST_P(CrashTest, FaultyStore) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    testing::FaultPlan plan;
    plan.seed = seed;
    plan.fail = 100;
    plan.applied_but_failed = 100;
    testing::FaultyObjectStore faulty(store_, clock(), plan);
    Context shaky(db(), faulty, clock(), random(), settings());
    VolumeInfo volume = make_volume("v" + std::to_string(seed));
    auto upload = Uploads(context()).open(request_for(volume.id));
    ASSERT_OK(upload);
    auto request = prepare(*upload, {{"a", "alpha " + std::to_string(seed)}, {"b", "beta"}});
    ASSERT_OK(request);
    Result<Publication> done = Error(Code::kInternal, "not tried");
    for (int i = 0; i < 50 && !done; ++i) {
      done = Publisher(shaky).publish(*request, soon());
      if (!done) {
        EXPECT_EQ(wire_name(done.error().code()), "store_unavailable");
      }
      EXPECT_EQ(client().read(volume.id)->empty(), !done.has_value());
    }
    ASSERT_OK(done);
    EXPECT_EQ(client().read(volume.id)->at("b"), "beta");
  }
}

}  // namespace
}  // namespace cairn::volume
