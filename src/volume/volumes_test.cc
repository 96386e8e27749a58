#include "volume/volumes.h"

#include "base/quantity.h"
#include "catalog/packs.h"
#include "catalog/stores.h"
#include "codec/bytes.h"
#include "store/pack.h"
#include "store/store_header.h"
#include "volume/epochs.h"
#include "volume/volume_fixture.h"

namespace cairn::volume {
namespace {

using VolumesTest = VolumeTest;
CAIRN_INSTANTIATE_CATALOG(VolumesTest);

TEST_P(VolumesTest, CreateIsIdempotent) {
  Volumes volumes(context());
  bool created = false;
  auto first = volumes.create(alice_, "data", 1'000, {}, &created);
  ASSERT_OK(first);
  EXPECT_TRUE(created);
  auto again = volumes.create(alice_, "data", 1'000, {}, &created);
  ASSERT_OK(again);
  EXPECT_FALSE(created);
  EXPECT_EQ(again->id, first->id);
  ASSERT_OK(volumes.create(alice_, "data", {}));
  auto other = volumes.create(alice_, "data", 2'000);
  EXPECT_CODE(Code::kVolumeExistsWithOtherSize, other);
  EXPECT_NE(other.error().hint().find("cairn volumes expand data --size 2k"), std::string::npos)
      << other.error().hint();
  // Another person's volume of that name is another volume.
  auto bobs = volumes.create(bob_, "data", 2'000);
  ASSERT_OK(bobs);
  EXPECT_NE(bobs->id, first->id);
  // Header and epoch of each store, nothing else.
  EXPECT_EQ(store_.object_count(), 4u);
  EXPECT_CODE(Code::kVolumeNameInvalid, volumes.create(alice_, "Data", {}));
  EXPECT_CODE(Code::kSizeOverMaximum, volumes.create(alice_, "big", *parse_size("21Ti")));
  EXPECT_EQ(volumes.create(alice_, "usual", {})->size_bytes, int64_t{5} << 40);
}

TEST_P(VolumesTest, ExpandOnlyGrows) {
  Volumes volumes(context());
  make_volume("data", 1'000);
  EXPECT_EQ(volumes.expand(alice_.user, "data", 2'000)->size_bytes, 2'000);
  ASSERT_OK(volumes.expand(alice_.user, "data", 2'000));
  EXPECT_CODE(Code::kOnlyGrow, volumes.expand(alice_.user, "data", 1'999));
  EXPECT_CODE(Code::kSizeOverMaximum, volumes.expand(alice_.user, "data", *parse_size("20.1Ti")));
  EXPECT_CODE(Code::kVolumeNotFound, volumes.expand(bob_.user, "data", 3'000));
}

TEST_P(VolumesTest, ListShowsTrashAndHidesWorkspaces) {
  Volumes volumes(context());
  make_volume("b");
  make_volume("a");
  auto workspace = volumes.create_workspace(alice_, 1'000);
  ASSERT_OK(workspace);
  ASSERT_OK(volumes.find(alice_.user, workspace->name));
  ASSERT_OK(volumes.remove(alice_.user, "b", false));
  make_volume("b");
  auto list = volumes.list(alice_.user);
  ASSERT_OK(list);
  ASSERT_EQ(list->size(), 3u);
  EXPECT_EQ((*list)[0].name, "a");
  EXPECT_NE((*list)[1].state, (*list)[2].state);
  ASSERT_OK(volumes.purge(workspace->id));
  EXPECT_CODE(Code::kVolumeNotFound, volumes.find(workspace->id));
}

TEST_P(VolumesTest, WorkspacesThatNoRunUsesGo) {
  Volumes volumes(context());
  auto make = [&] {
    auto workspace = volumes.create_workspace(alice_, 1 << 20);
    EXPECT_TRUE(workspace) << workspace.error().to_string();
    return workspace->id;
  };
  VolumeId leaked = make();
  VolumeId used = make();
  volumes.add_usage_probe([used](catalog::Tx&, VolumeId volume) -> Result<std::vector<Use>> {
    if (volume != used) return std::vector<Use>();
    return std::vector<Use>{{"run 7", ""}};
  });
  make_volume("data");
  run_time(hours(23));
  VolumeId young = make();
  EXPECT_EQ(*volumes.purge_due(), 0);
  run_time(hours(2));
  EXPECT_EQ(*volumes.purge_due(), 1);
  EXPECT_CODE(Code::kVolumeNotFound, volumes.find(leaked));
  ASSERT_OK(volumes.find(used));
  ASSERT_OK(volumes.find(young));
  ASSERT_OK(volumes.find(alice_.user, "data"));
}

TEST_P(VolumesTest, DeleteIsRefusedWhileInUse) {
  Volumes volumes(context());
  VolumeInfo volume = make_volume("data");
  auto upload = Uploads(context()).open(request_for(volume.id));
  ASSERT_OK(upload);
  auto refused = volumes.remove(alice_.user, "data", false);
  EXPECT_CODE(Code::kVolumeInUse, refused);
  EXPECT_NE(refused.error().message().find("put from laptop"), std::string::npos);
  EXPECT_FALSE(refused.error().hint().empty());
  // A writer who is gone for longer than its lease does not protect the volume.
  run_time(minutes(16));
  ASSERT_OK(volumes.remove(alice_.user, "data", false));
  EXPECT_CODE(Code::kLeaseLost, Uploads(context()).heartbeat(upload->id, upload->lease.secret));
}

TEST_P(VolumesTest, UnsyncedRunAndProbesProtect) {
  Volumes volumes(context());
  VolumeInfo volume = make_volume("data");
  ASSERT_OK(Uploads(context()).open(request_for(volume.id, HolderKind::kRun)));
  run_time(hours(1));
  auto refused = volumes.remove(alice_.user, "data", false);
  EXPECT_CODE(Code::kVolumeInUse, refused);
  EXPECT_NE(refused.error().message().find("not published yet"), std::string::npos);
  EXPECT_NE(refused.error().hint().find("break-lease data"), std::string::npos);
  make_volume("other");
  volumes.add_usage_probe([](catalog::Tx&, VolumeId) -> Result<std::vector<Use>> {
    return std::vector<Use>{{"session 7", "cairn volumes stop other 7"}};
  });
  auto probed = volumes.remove(alice_.user, "other", false);
  EXPECT_CODE(Code::kVolumeInUse, probed);
  EXPECT_EQ(probed.error().hint(), "cairn volumes stop other 7");
}

TEST_P(VolumesTest, WhatALostRunHoldsCanBeGivenUp) {
  Volumes volumes(context());
  VolumeInfo volume = make_volume("data");
  auto run = Uploads(context()).open(request_for(volume.id, HolderKind::kRun));
  ASSERT_OK(run);
  run_time(hours(1));
  // Somebody else had the lease since.
  ASSERT_OK(client().put_files(volume.id, alice_.user, {{"a", "alpha"}}));
  EXPECT_CODE(Code::kVolumeInUse, volumes.remove(alice_.user, "data", false));
  ASSERT_OK(Leases(context()).break_lease(volume.id, "alice"));
  // What comes back before the volume is deleted goes aside.
  auto late = prepare(*run, {{"b", "beta"}});
  ASSERT_OK(late);
  auto published = Publisher(context()).publish(*late, soon());
  ASSERT_OK(published);
  EXPECT_TRUE(published->side);
  ASSERT_OK(volumes.remove(alice_.user, "data", false));
}

TEST_P(VolumesTest, TrashUndeleteAndPurge) {
  Volumes volumes(context());
  VolumeInfo volume = make_volume("data");
  testing::Contents files = {{"a", "alpha"}, {"dir/b", "beta"}};
  ASSERT_OK(client().put_files(volume.id, alice_.user, files));
  ASSERT_OK(volumes.remove(alice_.user, "data", false));
  EXPECT_CODE(Code::kVolumeNotFound, volumes.find(alice_.user, "data"));
  make_volume("data");  // the name is free
  EXPECT_CODE(Code::kVolumeExists, volumes.undelete(alice_.user, "data"));
  ASSERT_OK(volumes.undelete(alice_.user, "data", "old"));
  EXPECT_EQ(*client().read(volume.id), files);
  ASSERT_OK(volumes.remove(alice_.user, "old", false));
  run_time(hours(24));
  EXPECT_EQ(*volumes.purge_due(), 0);
  run_time(hours(7 * 24));
  EXPECT_EQ(*volumes.purge_due(), 1);
  EXPECT_CODE(Code::kVolumeNotFound, volumes.find(volume.id));
  EXPECT_CODE(Code::kVolumeNotFound, volumes.undelete(alice_.user, "old"));
  // Only the other volume's two objects are left; the store's row goes once no URL can be alive.
  EXPECT_EQ(store_.object_count(), 2u);
  auto find_store = [&](catalog::Tx& tx) { return catalog::stores::find(tx, volume.store); };
  auto removing = db().read(find_store);
  ASSERT_OK(removing);
  EXPECT_EQ((*removing)->state, "removing");
  // A PUT may begin with the last URL in its last second, and take its time.
  run_time(hours(6));
  ASSERT_OK(volumes.purge_due());
  ASSERT_OK(store_.put_if_absent(store::pack_key(volume.store, PackId::random(random())), codec::as_bytes("late"), soon()));
  run_time(hours(1));
  ASSERT_OK(volumes.purge_due());
  auto gone = db().read(find_store);
  ASSERT_OK(gone);
  EXPECT_FALSE(gone->has_value());
  EXPECT_EQ(store_.object_count(), 2u);
}

class FailingRemoval final : public object::ObjectStore {
 public:
  explicit FailingRemoval(object::ObjectStore& inner) : inner_(inner) {}
  Result<std::unique_ptr<object::ObjectWriter>> create(const object::ObjectKey& key, uint64_t size,
                                                       const Deadline& d) override {
    return inner_.create(key, size, d);
  }
  Result<std::unique_ptr<object::ObjectReader>> open(const object::ObjectKey& key, const Deadline& d) override {
    return inner_.open(key, d);
  }
  Status put_if_absent(const object::ObjectKey& key, object::ByteView data, const Deadline& d) override {
    return inner_.put_if_absent(key, data, d);
  }
  Result<object::Bytes> get(const object::ObjectKey& key, uint64_t offset, uint64_t length,
                            const Deadline& d) override {
    return inner_.get(key, offset, length, d);
  }
  Result<object::ObjectInfo> head(const object::ObjectKey& key, const Deadline& d) override {
    return inner_.head(key, d);
  }
  Status remove(const object::ObjectKey& key, const Deadline& d) override {
    if (failing) return Error(Code::kStoreUnavailable, "the store is down");
    return inner_.remove(key, d);
  }
  Result<object::ListPage> list(const std::string& prefix, const std::string& after, size_t limit,
                                const Deadline& d) override {
    return inner_.list(prefix, after, limit, d);
  }
  bool failing = true;

 private:
  object::ObjectStore& inner_;
};

TEST_P(VolumesTest, RemovalThatFailsIsShownAndRetried) {
  FailingRemoval objects(store_);
  Context failing(db(), objects, clock(), random());
  Volumes volumes(failing);
  VolumeInfo volume = make_volume("data");
  ASSERT_OK(client().put_files(volume.id, alice_.user, {{"a", "alpha"}}));
  ASSERT_OK(volumes.remove(alice_.user, "data", true));
  EXPECT_EQ(*volumes.purge_due(), 0);
  auto shown = volumes.find(volume.id);
  ASSERT_OK(shown);
  EXPECT_EQ(state_name(shown->state), "DELETE FAILED");
  EXPECT_NE(shown->delete_error.find("the store is down"), std::string::npos);
  objects.failing = false;
  EXPECT_EQ(*volumes.purge_due(), 1);
  EXPECT_EQ(store_.object_count(), 0u);
}

TEST_P(VolumesTest, DeletePreviewCountsCheckpoints) {
  VolumeInfo volume = make_volume("data");
  auto run = Uploads(context()).open(request_for(volume.id, HolderKind::kRun));
  ASSERT_OK(run);
  auto request = prepare(*run, {{"a", "alpha"},
                                {"runs/r1/checkpoints/step_1/model", "m1"},
                                {"runs/r1/checkpoints/step_2/model", "m2"},
                                {"runs/r2/checkpoints/step_5/model", "m5"},
                                {"runs/r2/logs/x", "x"}});
  ASSERT_OK(request);
  ASSERT_OK(Publisher(context()).publish(*request, soon()));
  auto preview = Volumes(context()).delete_preview(alice_.user, "data");
  ASSERT_OK(preview);
  EXPECT_EQ(preview->files, 5);
  EXPECT_EQ(preview->checkpoints, 3);
  EXPECT_EQ(preview->checkpoint_paths.front(), "runs/r1/checkpoints/step_1");
}

TEST_P(VolumesTest, OlderCatalogRaisesTheEpoch) {
  VolumeInfo volume = make_volume("data");
  ASSERT_OK(client().put_files(volume.id, alice_.user, {{"a", "alpha"}}));
  auto upload = Uploads(context()).open(request_for(volume.id));
  ASSERT_OK(upload);
  EXPECT_TRUE(Epochs(context()).check_all(soon())->empty());
  // Somebody else's catalog has written a higher epoch into the store.
  ASSERT_OK(store_.put_if_absent(store::epoch_key(volume.store, 9), store::encode_epoch(volume.store, 9), soon()));
  auto raised = Epochs(context()).check_all(soon());
  ASSERT_OK(raised);
  EXPECT_EQ(*raised, std::vector<StoreId>{volume.store});
  EXPECT_TRUE(Epochs(context()).check_all(soon())->empty());
  EXPECT_CODE(Code::kLeaseLost, Uploads(context()).heartbeat(upload->id, upload->lease.secret));
  auto next = Leases(context()).acquire(request_for(volume.id));
  ASSERT_OK(next);
  EXPECT_GT(next->fence, uint64_t{1} << 32);
  // Nothing is collected until somebody says so.
  auto report = GarbageCollector(context()).run(volume.store, soon());
  ASSERT_OK(report);
  EXPECT_EQ(report->roots, 0);
  ASSERT_OK(Epochs(context()).allow_collection(volume.store));
  EXPECT_GT(GarbageCollector(context()).run(volume.store, soon())->roots, 0);
}

}  // namespace
}  // namespace cairn::volume
