// The conditional statements of storage on both engines, alone and against each other.
#include <atomic>
#include <thread>

#include "catalog/leases.h"
#include "catalog/packs.h"
#include "catalog/pins.h"
#include "catalog/publish_ops.h"
#include "catalog/snapshots.h"
#include "catalog/stores.h"
#include "catalog/uploads.h"
#include "catalog/volumes.h"
#include "testing/catalog_fixture.h"

namespace cairn::catalog {
namespace {

class StorageTablesTest : public testing::CatalogTest {
 protected:
  void SetUp() override {
    CatalogTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    store_ = StoreId::random(random());
    owner_ = UserId::random(random());
    run([&](Tx& tx) {
      StoreRow row;
      row.id = store_;
      row.owner = owner_;
      return stores::insert(tx, row);
    });
    volume_ = make_volume("data");
  }

  template <class Fn>
  void run(Fn fn) {
    auto done = db().transact(fn);
    ASSERT_TRUE(done) << done.error().to_string();
  }
  template <class Fn>
  auto value(Fn fn) {
    auto done = db().transact(fn);
    EXPECT_TRUE(done) << done.error().to_string();
    return *std::move(done);
  }

  VolumeId make_volume(const std::string& name) {
    VolumeRow row;
    row.id = VolumeId::random(random());
    row.owner = owner_;
    row.store = store_;
    row.name = name;
    row.size_bytes = 1'000;
    row.history = "7d";
    EXPECT_TRUE(value([&](Tx& tx) { return volumes::insert(tx, row); }));
    run([&](Tx& tx) { return insert_snapshot(tx, row.id, 0); });
    return row.id;
  }
  Status insert_snapshot(Tx& tx, VolumeId volume, int64_t number) {
    SnapshotRow row;
    row.volume = volume;
    row.number = number;
    row.kind = "put";
    CAIRN_TRY(bool inserted, snapshots::insert(tx, row));
    EXPECT_TRUE(inserted);
    return ok();
  }
  PackId make_pack(std::optional<UploadId> upload = {}, bool live = true) {
    PackRow row;
    row.id = PackId::random(random());
    row.store = store_;
    row.upload = upload;
    row.object_key = "s/x/p/" + row.id.hex();
    row.size_bytes = 100;
    run([&](Tx& tx) -> Status {
      CAIRN_TRY(row.created_ticket, stores::next_ticket(tx, store_));
      CAIRN_CHECK_OK(packs::insert_promised(tx, row));
      if (!live) return ok();
      CAIRN_TRY(bool registered, packs::register_live(tx, row.id, "seal", 1, 16));
      EXPECT_TRUE(registered);
      return ok();
    });
    return row.id;
  }
  std::string state_of(PackId pack) {
    auto row = value([&](Tx& tx) { return packs::find(tx, pack); });
    return row ? row->state : "gone";
  }
  int64_t touch(const std::vector<PackId>& ids) {
    return value([&](Tx& tx) -> Result<int64_t> {
      CAIRN_TRY(int64_t ticket, stores::next_ticket(tx, store_));
      return packs::touch(tx, store_, ids, ticket);
    });
  }
  int64_t mark() {
    return value([&](Tx& tx) { return stores::next_ticket(tx, store_); });
  }
  int64_t condemn(int64_t ticket, const std::vector<PackId>& ids) {
    return value([&](Tx& tx) { return packs::condemn(tx, store_, ids, ticket, Time{1'000}); });
  }

  StoreId store_;
  UserId owner_;
  VolumeId volume_;
};
CAIRN_INSTANTIATE_CATALOG(StorageTablesTest);

TEST_P(StorageTablesTest, NamesAreUniqueAmongCreatedOnes) {
  VolumeRow again;
  again.id = VolumeId::random(random());
  again.owner = owner_;
  again.store = store_;
  again.name = "data";
  again.size_bytes = 1;
  again.history = "off";
  EXPECT_FALSE(value([&](Tx& tx) { return volumes::insert(tx, again); }));
  EXPECT_TRUE(value([&](Tx& tx) { return volumes::trash(tx, volume_, Time{1}, Time{2}); }));
  EXPECT_TRUE(value([&](Tx& tx) { return volumes::insert(tx, again); }));
  EXPECT_FALSE(value([&](Tx& tx) { return volumes::undelete(tx, volume_, "data"); }));
  EXPECT_TRUE(value([&](Tx& tx) { return volumes::undelete(tx, volume_, "other"); }));
}

TEST_P(StorageTablesTest, HeadSwapIsConditional) {
  auto swap = [&](int64_t base, int64_t number, int64_t bytes) {
    return value([&](Tx& tx) { return volumes::swap_head(tx, volume_, base, number, {1, 1, bytes}); });
  };
  EXPECT_FALSE(swap(1, 2, 0));      // not the head
  EXPECT_FALSE(swap(0, 1, 1'001));  // too large
  EXPECT_TRUE(swap(0, 1, 1'000));
  EXPECT_FALSE(swap(1, 1, 0));  // not a new number
  EXPECT_TRUE(value([&](Tx& tx) { return volumes::take_number(tx, volume_, 2); }));
  EXPECT_FALSE(swap(1, 2, 0));
  EXPECT_TRUE(swap(1, 3, 0));
  EXPECT_TRUE(value([&](Tx& tx) { return volumes::trash(tx, volume_, Time{1}, Time{2}); }));
  EXPECT_FALSE(swap(3, 4, 0));
}

TEST_P(StorageTablesTest, OneWriterIsAnIndex) {
  LeaseRow lease;
  lease.volume = volume_;
  lease.kind = "upload";
  lease.holder = "a";
  auto insert = [&](int64_t fence) {
    lease.id = LeaseId::random(random());
    lease.fence = fence;
    return db().transact([&](Tx& tx) { return leases::insert(tx, lease); });
  };
  ASSERT_TRUE(insert(1));
  EXPECT_FALSE(insert(2));
  EXPECT_EQ(value([&](Tx& tx) { return leases::end_all(tx, volume_, Time{1}, "taken"); }), 1);
  EXPECT_FALSE(insert(1));  // fences are not given twice
  EXPECT_TRUE(insert(2));
}

TEST_P(StorageTablesTest, EndedLeasesGoWhenNoUploadNamesThem) {
  LeaseRow lease;
  lease.volume = volume_;
  lease.kind = "upload";
  lease.holder = "a";
  for (int64_t fence : {1, 2, 3}) {
    lease.id = LeaseId::random(random());
    lease.fence = fence;
    run([&](Tx& tx) { return leases::insert(tx, lease); });
    if (fence == 2) {
      UploadRow upload;
      upload.id = UploadId::random(random());
      upload.volume = volume_;
      upload.store = store_;
      upload.lease = lease.id;
      upload.kind = "upload";
      upload.holder = "a";
      run([&](Tx& tx) { return uploads::insert(tx, upload); });
    }
    if (fence == 3) break;
    EXPECT_TRUE(value([&](Tx& tx) { return leases::end(tx, lease.id, Time{fence}, "released"); }));
  }
  EXPECT_EQ(value([&](Tx& tx) { return leases::remove_ended(tx, Time{1}, 10); }), 0);  // not yet
  EXPECT_EQ(value([&](Tx& tx) { return leases::remove_ended(tx, Time{9}, 10); }), 1);  // one is named, one is current
  EXPECT_TRUE(value([&](Tx& tx) { return leases::find(tx, lease.id); }));
}

TEST_P(StorageTablesTest, PackStates) {
  PackId live = make_pack();
  PackId promised = make_pack({}, false);
  EXPECT_EQ(touch({live}), 1);
  EXPECT_EQ(touch({promised}), 0);  // no seal
  int64_t ticket = mark();
  PackId young = make_pack();
  EXPECT_EQ(condemn(ticket, {live, promised, young}), 2);
  EXPECT_EQ(touch({live}), 1);  // revived
  EXPECT_EQ(touch({promised}), 0);
  EXPECT_FALSE(value([&](Tx& tx) { return packs::register_live(tx, promised, "seal", 1, 16); }));
  EXPECT_EQ(condemn(ticket, {live}), 0);  // an old mark says nothing about it
  EXPECT_EQ(condemn(mark(), {live}), 1);
  EXPECT_EQ(value([&](Tx& tx) { return packs::begin_deleting(tx, store_, Time{999}, 100); }), 0);
  EXPECT_EQ(value([&](Tx& tx) { return packs::begin_deleting(tx, store_, Time{1'000}, 1); }), 1);
  EXPECT_EQ(value([&](Tx& tx) { return packs::begin_deleting(tx, store_, Time{1'000}, 100); }), 1);
  EXPECT_EQ(touch({live, young}), 1);  // deleting is final
  EXPECT_EQ(value([&](Tx& tx) { return packs::untouchable(tx, store_, {live, young}); }), std::vector<PackId>{live});
  EXPECT_FALSE(value([&](Tx& tx) { return packs::remove(tx, young); }));
  EXPECT_TRUE(value([&](Tx& tx) { return packs::remove(tx, live); }));
  EXPECT_EQ(state_of(live), "gone");
}

TEST_P(StorageTablesTest, ManyIdsInBatches) {
  std::vector<PackId> ids;
  for (int i = 0; i < 250; ++i) ids.push_back(make_pack());
  EXPECT_EQ(touch(ids), 250);
  run([&](Tx& tx) { return packs::add_to_volume(tx, volume_, ids); });
  run([&](Tx& tx) { return packs::add_to_volume(tx, volume_, ids); });
  for (PackId id : {ids.front(), ids[100], ids.back()}) {
    EXPECT_TRUE(value([&](Tx& tx) { return packs::find_of_volume(tx, volume_, id); }).has_value());
  }
  EXPECT_EQ(condemn(mark(), ids), 250);
}

// E8 of the rules: gc moves a pack to deleting while a publication touches it. Never may both succeed.
TEST_P(StorageTablesTest, TouchAndDeletingExcludeEachOther) {
  for (int round = 0; round < 25; ++round) {
    PackId pack = make_pack();
    condemn(mark(), {pack});
    std::atomic<int64_t> touched{0}, deleting{0};
    std::atomic<int> ready{0};
    auto meet = [&] {
      ++ready;
      while (ready < 2) std::this_thread::yield();
    };
    std::thread publisher([&] {
      meet();
      auto done = db().transact([&](Tx& tx) -> Result<int64_t> {
        CAIRN_TRY(int64_t ticket, stores::next_ticket(tx, store_));
        return packs::touch(tx, store_, {pack}, ticket);
      });
      if (done) touched = *done;
    });
    std::thread collector([&] {
      meet();
      auto done = db().transact([&](Tx& tx) { return packs::begin_deleting(tx, store_, Time{1'000}, 100); });
      if (done) deleting = *done;
    });
    publisher.join();
    collector.join();
    ASSERT_EQ(touched + deleting, 1) << "round " << round;
    ASSERT_EQ(state_of(pack), touched == 1 ? "live" : "deleting");
  }
}

// A pin and a removal of the same snapshot at one moment: either the pin finds it and it stays, or it is gone for both.
TEST_P(StorageTablesTest, PinAndRetirementExcludeEachOther) {
  EXPECT_TRUE(value([&](Tx& tx) { return volumes::swap_head(tx, volume_, 0, 1'000, {}); }));
  for (int64_t number = 1; number <= 25; ++number) {
    run([&](Tx& tx) -> Status {
      CAIRN_CHECK_OK(insert_snapshot(tx, volume_, number));
      return snapshots::supersede(tx, volume_, number, Time{1});
    });
    std::atomic<bool> pinned{false};
    std::atomic<int> ready{0};
    auto meet = [&] {
      ++ready;
      while (ready < 2) std::this_thread::yield();
    };
    PinRow pin;
    pin.id = PinId::random(random());
    pin.volume = volume_;
    pin.number = number;
    pin.expires_lease = LeaseTime{INT64_MAX};
    std::thread reader([&] {
      meet();
      auto done = db().transact([&](Tx& tx) -> Result<bool> {
        CAIRN_TRY(bool kept, snapshots::guard(tx, volume_, number));
        if (!kept) return false;
        CAIRN_CHECK_OK(pins::insert(tx, pin));
        return true;
      });
      pinned = done && *done;
    });
    std::thread retention([&] {
      meet();
      (void)db().transact([&](Tx& tx) { return snapshots::retire_superseded(tx, volume_, Time{2}, Time{3}); });
    });
    reader.join();
    retention.join();
    bool kept = value([&](Tx& tx) { return snapshots::find(tx, volume_, number); }).has_value();
    if (pinned) {
      ASSERT_TRUE(kept) << number;
    }
    run([&](Tx& tx) { return pins::remove_of_volume(tx, volume_); });
  }
}

TEST_P(StorageTablesTest, ClaimsOfPublicationsEndInLeaseTime) {
  auto claim = [&](const std::string& who) {
    return value([&](Tx& tx) -> Result<bool> {
      CAIRN_TRY(LeaseTime now, catalog_clock().lease_now(tx));
      return volumes::claim_publishing(tx, volume_, RequestId::random(random()), who, now + seconds(30));
    });
  };
  EXPECT_TRUE(claim("a"));
  EXPECT_FALSE(claim("b"));
  clock().advance(hours(1));  // an outage
  ASSERT_TRUE(catalog_clock().stamp(db()));
  EXPECT_FALSE(claim("b"));
  run_time(seconds(40));
  EXPECT_TRUE(claim("b"));
  EXPECT_FALSE(value([&](Tx& tx) { return volumes::renew_publishing(tx, volume_, "a", LeaseTime{INT64_MAX}); }));
  run([&](Tx& tx) { return volumes::release_publishing(tx, volume_, "a"); });
  EXPECT_FALSE(claim("c"));
  run([&](Tx& tx) { return volumes::release_publishing(tx, volume_, "b"); });
  EXPECT_TRUE(claim("c"));
}

TEST_P(StorageTablesTest, OperationsEndOnce) {
  PublishOpRow op;
  op.request = RequestId::random(random());
  op.volume = volume_;
  op.kind = "put";
  EXPECT_TRUE(value([&](Tx& tx) { return publish_ops::insert(tx, op); }));
  EXPECT_FALSE(value([&](Tx& tx) { return publish_ops::insert(tx, op); }));
  op.snapshot_number = 7;
  EXPECT_TRUE(value([&](Tx& tx) { return publish_ops::finish(tx, op, Time{5}); }));
  EXPECT_FALSE(value([&](Tx& tx) { return publish_ops::fail(tx, op.request, "lease_lost", "m", "h", Time{6}); }));
  EXPECT_EQ(value([&](Tx& tx) { return publish_ops::find(tx, op.request); })->snapshot_number, 7);
  EXPECT_TRUE(value([&](Tx& tx) { return publish_ops::list_running(tx, 10); }).empty());
  EXPECT_EQ(value([&](Tx& tx) { return publish_ops::remove_finished(tx, Time{5}, 10); }), 0);
  EXPECT_EQ(value([&](Tx& tx) { return publish_ops::remove_finished(tx, Time{6}, 10); }), 1);
}

}  // namespace
}  // namespace cairn::catalog
