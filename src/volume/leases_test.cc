#include "volume/leases.h"

#include "volume/volume_fixture.h"

namespace cairn::volume {
namespace {

using LeasesTest = VolumeTest;
CAIRN_INSTANTIATE_CATALOG(LeasesTest);

TEST_P(LeasesTest, HeldNamesHolderAndTimes) {
  VolumeInfo volume = make_volume("data");
  Leases leases(context());
  ASSERT_OK(leases.acquire(request_for(volume.id)));
  LeaseRequest bobs = request_for(volume.id);
  bobs.user = bob_.user;
  auto refused = leases.acquire(bobs);
  EXPECT_CODE(Code::kWriterLeaseHeld, refused);
  EXPECT_EQ(refused.error().holder(), "upload put from laptop");
  for (const char* part : {"'data'", "alice", "since 20", "until 20"}) {
    EXPECT_NE(refused.error().message().find(part), std::string::npos) << refused.error().message();
  }
  EXPECT_NE(refused.error().hint().find("break-lease data"), std::string::npos);
}

TEST_P(LeasesTest, TheHintStopsTheRunThatHoldsIt) {
  VolumeInfo volume = make_volume("data");
  Leases leases(context());
  LeaseRequest run = request_for(volume.id, HolderKind::kRun);
  run.holder = "run-0123abcd.2";
  ASSERT_OK(leases.acquire(run));
  auto refused = leases.acquire(request_for(volume.id));
  EXPECT_CODE(Code::kWriterLeaseHeld, refused);
  EXPECT_NE(refused.error().hint().find("`cairn train stop 0123abcd`"), std::string::npos) << refused.error().hint();
}

TEST_P(LeasesTest, SecretTakesOverAtOnce) {
  VolumeInfo volume = make_volume("data");
  Leases leases(context());
  auto first = leases.acquire(request_for(volume.id));
  ASSERT_OK(first);
  LeaseRequest again = request_for(volume.id);
  EXPECT_CODE(Code::kWriterLeaseHeld, leases.acquire(again));
  again.takeover_secret = "wrong";
  EXPECT_CODE(Code::kWriterLeaseHeld, leases.acquire(again));
  again.takeover_secret = first->secret;
  auto second = leases.acquire(again);
  ASSERT_OK(second);
  EXPECT_GT(second->fence, first->fence);
  EXPECT_NE(second->secret, first->secret);
  EXPECT_CODE(Code::kLeaseLost, leases.heartbeat(first->id, first->secret));
  EXPECT_CODE(Code::kNotAllowed, leases.heartbeat(second->id, first->secret));
  ASSERT_OK(leases.heartbeat(second->id, second->secret));
}

TEST_P(LeasesTest, SameSourceAfterAMinuteAnyoneAfterFifteen) {
  VolumeInfo volume = make_volume("data");
  Leases leases(context());
  auto first = leases.acquire(request_for(volume.id));
  ASSERT_OK(first);
  run_time(seconds(50));
  EXPECT_CODE(Code::kWriterLeaseHeld, leases.acquire(request_for(volume.id)));
  ASSERT_OK(leases.heartbeat(first->id, first->secret));
  run_time(seconds(50));  // not a minute since the heartbeat
  EXPECT_CODE(Code::kWriterLeaseHeld, leases.acquire(request_for(volume.id)));
  LeaseRequest elsewhere = request_for(volume.id);
  elsewhere.source = "desktop:/data";
  run_time(seconds(20));
  EXPECT_CODE(Code::kWriterLeaseHeld, leases.acquire(elsewhere));
  ASSERT_OK(leases.acquire(request_for(volume.id)));
  run_time(minutes(14));
  EXPECT_CODE(Code::kWriterLeaseHeld, leases.acquire(elsewhere));
  run_time(minutes(1));
  ASSERT_OK(leases.acquire(elsewhere));
}

TEST_P(LeasesTest, ExpiredStaysCurrentUntilTaken) {
  VolumeInfo volume = make_volume("data");
  Leases leases(context());
  auto first = leases.acquire(request_for(volume.id));
  ASSERT_OK(first);
  run_time(hours(30));
  ASSERT_OK(leases.heartbeat(first->id, first->secret));  // lateness alone never fences
  EXPECT_TRUE(leases.current(volume.id)->has_value());
}

TEST_P(LeasesTest, AnOutageFencesNobody) {
  VolumeInfo volume = make_volume("data");
  Leases leases(context());
  auto first = leases.acquire(request_for(volume.id));
  ASSERT_OK(first);
  clock().advance(hours(8));  // no server stamped
  ASSERT_OK(catalog_clock().stamp(db()));
  LeaseRequest bobs = request_for(volume.id);
  bobs.user = bob_.user;
  EXPECT_CODE(Code::kWriterLeaseHeld, leases.acquire(bobs));
  ASSERT_OK(leases.heartbeat(first->id, first->secret));
}

TEST_P(LeasesTest, ReleaseAndBreak) {
  VolumeInfo volume = make_volume("data");
  Leases leases(context());
  auto first = leases.acquire(request_for(volume.id));
  ASSERT_OK(first);
  EXPECT_CODE(Code::kNotAllowed, leases.release(first->id, "wrong"));
  ASSERT_OK(leases.release(first->id, first->secret));
  ASSERT_OK(leases.release(first->id, first->secret));
  auto second = leases.acquire(request_for(volume.id));
  ASSERT_OK(second);
  auto broken = leases.break_lease(volume.id, "bob");
  ASSERT_OK(broken);
  EXPECT_EQ((*broken)->lease, second->id);
  EXPECT_FALSE((*leases.break_lease(volume.id, "bob")).has_value());
  auto lost = leases.heartbeat(second->id, second->secret);
  EXPECT_CODE(Code::kLeaseLost, lost);
  EXPECT_NE(lost.error().message().find("broken by bob"), std::string::npos);
  LeaseRequest shared = request_for(volume.id);
  shared.mode = LeaseMode::kShared;
  EXPECT_CODE(Code::kRequestInvalid, leases.acquire(shared));
}

// Random grants, heartbeats, releases and time against a naive model of F10.
TEST_P(LeasesTest, AgreesWithTheModel) {
  struct Held {
    Lease lease;
    int user = 0;
    std::string source;
    int64_t seen_s = 0;
  };
  VolumeInfo volume = make_volume("data");
  Leases leases(context());
  SeededRandom dice(11);
  std::optional<Held> held;
  std::vector<Lease> old;
  uint64_t fence = 0;
  int64_t now_s = 0;
  for (int step = 0; step < 300; ++step) {
    switch (dice.below(5)) {
      case 0:
      case 1: {
        LeaseRequest request = request_for(volume.id);
        int user = static_cast<int>(dice.below(2));
        request.user = user == 0 ? alice_.user : bob_.user;
        request.source = dice.below(2) == 0 ? "laptop:/data" : "desktop:/data";
        bool secret = held && dice.below(4) == 0;
        if (secret) request.takeover_secret = held->lease.secret;
        int64_t silent = held ? now_s - held->seen_s : 0;
        bool may = !held || secret || silent >= 15 * 60 ||
                   (silent >= 60 && held->user == user && held->source == request.source);
        auto lease = leases.acquire(request);
        ASSERT_EQ(lease.has_value(), may) << "step " << step;
        if (!lease) break;
        ASSERT_GT(lease->fence, fence);
        fence = lease->fence;
        if (held) old.push_back(held->lease);
        held = Held{*lease, user, request.source, now_s};
        break;
      }
      case 2:
        if (held) {
          ASSERT_OK(leases.heartbeat(held->lease.id, held->lease.secret));
          held->seen_s = now_s;
        }
        if (!old.empty()) {
          const Lease& lease = old[dice.below(old.size())];
          EXPECT_CODE(Code::kLeaseLost, leases.heartbeat(lease.id, lease.secret));
        }
        break;
      case 3:
        if (held && dice.below(4) == 0) {
          ASSERT_OK(leases.release(held->lease.id, held->lease.secret));
          old.push_back(held->lease);
          held.reset();
        }
        break;
      default: {
        auto passed = static_cast<int64_t>(10 * (1 + dice.below(dice.below(4) == 0 ? 100 : 4)));
        run_time(seconds(passed));
        now_s += passed;
      }
    }
    auto current = leases.current(volume.id);
    ASSERT_OK(current);
    ASSERT_EQ(current->has_value(), held.has_value());
    if (held) {
      ASSERT_EQ((*current)->lease, held->lease.id);
    }
  }
}

}  // namespace
}  // namespace cairn::volume
