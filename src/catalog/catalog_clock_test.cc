#include "catalog/catalog_clock.h"

#include "testing/catalog_fixture.h"

namespace cairn::catalog {
namespace {

class CatalogClockTest : public testing::CatalogTest {
 protected:
  Time now(CatalogClock& clock) {
    auto time = db().read([&](Tx& tx) { return clock.now(tx); });
    EXPECT_TRUE(time) << time.error().to_string();
    return time ? *time : Time{};
  }
  Time now() { return now(catalog_clock()); }
  Time removal_now() {
    auto time = db().read([&](Tx& tx) { return catalog_clock().removal_now(tx); });
    EXPECT_TRUE(time) << time.error().to_string();
    return time ? *time : Time{};
  }
  LeaseTime lease_now() {
    auto time = db().read([&](Tx& tx) { return catalog_clock().lease_now(tx); });
    EXPECT_TRUE(time) << time.error().to_string();
    return time ? *time : LeaseTime{};
  }
  CatalogClock::Stamp stamp() {
    auto stamped = catalog_clock().stamp(db());
    EXPECT_TRUE(stamped) << stamped.error().to_string();
    return stamped ? *stamped : CatalogClock::Stamp{};
  }
};
CAIRN_INSTANTIATE_CATALOG(CatalogClockTest);

TEST_P(CatalogClockTest, LeaseTimeMovesWithStamps) {
  LeaseTime start = lease_now();
  Time begin = now();
  run_time(minutes(15));
  EXPECT_EQ(lease_now() - start, Duration(minutes(15)));
  EXPECT_EQ(now() - begin, Duration(minutes(15)));
}

TEST_P(CatalogClockTest, AnOutageExpiresNothing) {
  run_time(minutes(1));
  LeaseTime expiry = lease_now() + minutes(15);
  clock().advance(hours(8));  // the laptop sleeps
  EXPECT_LT(lease_now(), expiry);
  CatalogClock restarted(clock());
  auto stamped = restarted.stamp(db());
  ASSERT_TRUE(stamped);
  EXPECT_EQ(stamped->paused, Duration(hours(8)));
  EXPECT_EQ(expiry - stamped->lease_now, Duration(minutes(15)));  // all of it is left
  run_time(minutes(15));
  EXPECT_GE(lease_now(), expiry);
}

TEST_P(CatalogClockTest, AGapOfThirtySecondsCountsAndALongerOneDoesNot) {
  LeaseTime start = lease_now();
  clock().advance(seconds(30));
  EXPECT_EQ(stamp().lease_now - start, Duration(seconds(30)));
  clock().advance(seconds(30) + Duration(1));
  EXPECT_EQ(stamp().lease_now - start, Duration(seconds(30)));
}

TEST_P(CatalogClockTest, AJumpForwardExpiresNothing) {
  LeaseTime start = lease_now();
  clock().jump(hours(3));
  clock().advance(seconds(10));
  EXPECT_EQ(stamp().lease_now, start);
  clock().advance(seconds(10));
  EXPECT_EQ(stamp().lease_now - start, Duration(seconds(10)));
}

TEST_P(CatalogClockTest, TheClockNeverRunsBackAndLeaseTimeGoesOn) {
  clock().advance(seconds(9));
  Time before = now();
  LeaseTime start = lease_now();
  clock().jump(-hours(1));
  EXPECT_EQ(now(), before);
  stamp();
  EXPECT_GE(now(), before);
  // Another server, which has no memory of its own.
  CatalogClock other(clock());
  EXPECT_GE(now(other), before);
  EXPECT_EQ(lease_now(), start);
  clock().advance(seconds(10));
  EXPECT_EQ(stamp().lease_now - start, Duration(seconds(10)));  // not frozen for an hour
  EXPECT_GE(now(other), before);
  clock().advance(hours(2));
  stamp();
  EXPECT_EQ(now(), clock().now());
}

TEST_P(CatalogClockTest, AJumpCountsForRemovalsOnlyAfterTheHold) {
  run_time(minutes(1));
  Time before = now();
  EXPECT_EQ(removal_now(), before);
  clock().advance(hours(40 * 24));  // servers were down, or the clock is wrong: nobody can tell
  EXPECT_EQ(stamp().held, Duration(hours(40 * 24)));
  EXPECT_EQ(now(), before + hours(40 * 24));
  EXPECT_EQ(removal_now(), before);
  run_time(minutes(10));
  EXPECT_EQ(removal_now(), before + minutes(10));
  run_time(CatalogClock::kHold - minutes(10));
  EXPECT_EQ(removal_now(), now());
  EXPECT_EQ(stamp().held, Duration(0));
}

TEST_P(CatalogClockTest, AJumpThatIsUndoneLeavesNothingBehind) {
  run_time(minutes(1));
  Time before = now();
  CatalogClock other(clock());  // another server's, which remembers what it told
  clock().jump(hours(40 * 24));
  stamp();
  run_time(minutes(1));
  EXPECT_EQ(now(other), before + hours(40 * 24) + minutes(1));
  clock().jump(-hours(40 * 24));
  clock().advance(seconds(10));
  EXPECT_TRUE(stamp().taken_back);
  EXPECT_EQ(now(), clock().now());
  EXPECT_EQ(now(other), clock().now());
  EXPECT_EQ(removal_now(), now());
  run_time(hours(5));
  EXPECT_EQ(removal_now(), before + minutes(1) + seconds(10) + hours(5));
}

TEST_P(CatalogClockTest, AJumpBetweenTwoStampsIsForgotten) {
  run_time(minutes(1));
  clock().jump(hours(40 * 24));
  EXPECT_EQ(now(), clock().now());
  clock().jump(-hours(40 * 24));
  run_time(seconds(10));
  EXPECT_EQ(now(), clock().now());
  EXPECT_EQ(removal_now(), now());
}

TEST_P(CatalogClockTest, AJumpAfterTheHoldStands) {
  clock().jump(hours(40 * 24));
  stamp();
  run_time(CatalogClock::kHold);
  Time told = now();
  EXPECT_EQ(removal_now(), told);
  clock().jump(-hours(40 * 24));
  stamp();
  EXPECT_GE(now(), told);
}

TEST_P(CatalogClockTest, TheSystemClockIsTheEngines) {
  CatalogClock real;
  int64_t off = now(real).us - system_clock().now().us;
  EXPECT_LT(std::abs(off), Duration(minutes(1)).count());
}

TEST_P(CatalogClockTest, TakingIsOneConditionalStatement) {
  ASSERT_TRUE(db().transact([&](Tx& tx) -> Status {
    CAIRN_TRY(Outcome made, tx.exec("create table held (holder text not null, expires_lease_us bigint not null)"));
    CAIRN_TRY(Outcome row, tx.exec("insert into held (holder, expires_lease_us) values ('a', (select lease_us from catalog_clock) + ?1)",
                                   {Duration(minutes(1)).count()}));
    return ok();
  }));
  auto take = [&] {
    return db().transact([&](Tx& tx) {
      return tx.update("update held set holder = 'b' where expires_lease_us <= (select lease_us from catalog_clock)");
    });
  };
  clock().advance(hours(1));
  EXPECT_EQ(*take(), 0);
  stamp();
  EXPECT_EQ(*take(), 0);
  run_time(minutes(1));
  EXPECT_EQ(*take(), 1);
}

}  // namespace
}  // namespace cairn::catalog
