#include "volume/gc.h"

#include "catalog/packs.h"
#include "store/pack.h"
#include "volume/history.h"
#include "volume/volume_fixture.h"

namespace cairn::volume {
namespace {

using testing::Changes;
using testing::Contents;

class GcTest : public VolumeTest {
 protected:
  Settings settings() override {
    Settings settings;
    settings.gc_grace = minutes(10);
    return settings;
  }
  void set_history(const char* text) {
    ASSERT_OK(Volumes(context()).set_history(alice_.user, "data", *HistoryPolicy::parse(text)));
  }
  bool exists(const VolumeInfo& volume, PackId pack) {
    return store_.head(store::pack_key(volume.store, pack), soon()).has_value();
  }
  GcReport collect(const VolumeInfo& volume) {
    auto report = GarbageCollector(context()).run(volume.store, soon());
    EXPECT_TRUE(report) << report.error().to_string();
    return report ? *report : GcReport{};
  }
  PackId pack_of(VolumeId volume, const std::string& path) {
    auto files = client().read_with_places(volume);
    EXPECT_TRUE(files);
    return files->at(path).second->place.pack;
  }
  std::vector<int64_t> numbers(VolumeId volume) {
    std::vector<int64_t> numbers;
    auto snapshots = Volumes(context()).snapshots(volume, 0, 1'000, true);
    EXPECT_TRUE(snapshots);
    for (const SnapshotInfo& snapshot : *snapshots) numbers.push_back(snapshot.number);
    return numbers;
  }
};
CAIRN_INSTANTIATE_CATALOG(GcTest);

TEST_P(GcTest, RemovesWhatNothingNames) {
  VolumeInfo volume = make_volume("data");
  set_history("off");
  ASSERT_OK(client().put_files(volume.id, alice_.user, {{"a", "old"}, {"b", "kept"}}));
  PackId old = pack_of(volume.id, "a");
  ASSERT_OK(client().put_files(volume.id, alice_.user, {{"a", "new"}, {"b", "kept too"}}));
  collect(volume);
  run_time(minutes(11));
  EXPECT_EQ(collect(volume).deleted, 2);  // the two changesets; snapshot 1 is still there
  EXPECT_TRUE(exists(volume, old));
  ASSERT_OK(Retention(context()).run(volume.id));
  EXPECT_EQ(numbers(volume.id), (std::vector<int64_t>{2}));
  GcReport report = collect(volume);
  EXPECT_EQ(report.condemned, 3);  // data, nodes and record of snapshot 1
  EXPECT_EQ(report.deleted, 0);
  EXPECT_TRUE(exists(volume, old));
  run_time(minutes(11));
  EXPECT_EQ(collect(volume).deleted, 3);
  EXPECT_FALSE(exists(volume, old));
  EXPECT_EQ(*client().read(volume.id), (Contents{{"a", "new"}, {"b", "kept too"}}));
  // Header, epoch, data, nodes, record.
  EXPECT_EQ(store_.object_count(), 5u);
}

TEST_P(GcTest, AClockThatRunsAheadForAWhileRemovesNothing) {
  VolumeInfo volume = make_volume("data");
  make_volume("old");
  ASSERT_OK(client().put_files(volume.id, alice_.user, {{"a", "one"}}));
  PackId first = pack_of(volume.id, "a");
  ASSERT_OK(client().put_files(volume.id, alice_.user, {{"a", "two"}}));
  ASSERT_OK(Volumes(context()).remove(alice_.user, "old", false));
  run_time(minutes(1));
  // A killed put, whose packs wait for the next one.
  auto upload = Uploads(context()).open(request_for(volume.id));
  ASSERT_OK(upload);
  auto unfinished = prepare(*upload, {{"b", "unfinished"}});
  ASSERT_OK(unfinished);
  ASSERT_OK(Uploads(context()).close(upload->id, upload->lease.secret));
  auto tasks = [&] {
    ASSERT_OK(Retention(context()).run_all());
    ASSERT_OK(Volumes(context()).purge_due());
    collect(volume);
  };
  clock().jump(hours(40 * 24));
  ASSERT_OK(catalog_clock().stamp(db()));
  tasks();
  CatalogTest::run_time(minutes(15));  // longer than the grace
  tasks();
  EXPECT_EQ(numbers(volume.id), (std::vector<int64_t>{2, 1, 0}));
  EXPECT_TRUE(exists(volume, first));
  EXPECT_TRUE(exists(volume, unfinished->changeset));
  clock().jump(-hours(40 * 24));
  ASSERT_OK(catalog_clock().stamp(db()));
  ASSERT_OK(Volumes(context()).undelete(alice_.user, "old"));
  tasks();
  EXPECT_EQ(numbers(volume.id), (std::vector<int64_t>{2, 1, 0}));
  // An outage of that length is believed after the hold.
  clock().advance(hours(40 * 24));
  CatalogTest::run_time(catalog::CatalogClock::kHold + minutes(1));
  tasks();
  EXPECT_EQ(numbers(volume.id), (std::vector<int64_t>{2}));
}

// The schedule of F1: a pack is judged by an old mark after a publication came to rely on it.
TEST_P(GcTest, PublicationAfterTheMarkWins) {
  VolumeInfo volume = make_volume("data");
  set_history("off");
  ASSERT_OK(client().put_files(volume.id, alice_.user, {{"a", "precious"}}));
  auto places = client().read_with_places(volume.id);
  ASSERT_OK(places);
  testing::FileChunk chunk = places->at("a").second;
  ASSERT_OK(client().put_files(volume.id, alice_.user, {{"b", "other"}}, {"a"}));
  ASSERT_OK(Retention(context()).run(volume.id));
  GarbageCollector gc(context());
  auto publish_again = [&] {
    auto upload = Uploads(context()).open(request_for(volume.id));
    EXPECT_TRUE(upload);
    Changes changes;
    changes.puts["a"] = {"precious", chunk};
    PublishRequest request;
    request.request = RequestId::random(random());
    request.upload = upload->id;
    request.secret = upload->lease.secret;
    auto changeset = client().send_changeset(*upload, changes);
    EXPECT_TRUE(changeset);
    request.changeset = *changeset;
    auto result = Publisher(context()).publish(request, soon());
    EXPECT_TRUE(Uploads(context()).close(upload->id, upload->lease.secret));
    return result;
  };
  auto mark = gc.mark(volume.store, soon());
  ASSERT_OK(mark);
  ASSERT_OK(publish_again());
  // Late: the touch has a higher ticket than the mark.
  ASSERT_OK(gc.condemn(*mark));
  run_time(minutes(11));
  ASSERT_OK(gc.sweep(volume.store, soon()));
  EXPECT_TRUE(exists(volume, chunk->place.pack));
  EXPECT_EQ(client().read(volume.id)->at("a"), "precious");

  // Condemned already: the touch revives it.
  ASSERT_OK(client().put_files(volume.id, alice_.user, {}, {"a"}));
  ASSERT_OK(Retention(context()).run(volume.id));
  mark = gc.mark(volume.store, soon());
  ASSERT_OK(mark);
  EXPECT_GT(*gc.condemn(*mark), 0);
  ASSERT_OK(publish_again());
  run_time(minutes(11));
  ASSERT_OK(gc.sweep(volume.store, soon()));
  EXPECT_EQ(client().read(volume.id)->at("a"), "precious");

  // Deleted: chunks_gone names it.
  ASSERT_OK(client().put_files(volume.id, alice_.user, {}, {"a"}));
  ASSERT_OK(Retention(context()).run(volume.id));
  collect(volume);
  run_time(minutes(11));
  collect(volume);
  EXPECT_FALSE(exists(volume, chunk->place.pack));
  auto gone = publish_again();
  EXPECT_CODE(Code::kChunksGone, gone);
  EXPECT_NE(gone.error().message().find(chunk->place.pack.hex()), std::string::npos);
}

// Node packs and records are the server's own: no upload protects them before the swap.
TEST_P(GcTest, CollectingAPublicationsOwnPacksDoesNotFailIt) {
  for (const char* where : {"nodes register", "record register"}) {
    SCOPED_TRACE(where);
    VolumeInfo volume = make_volume(std::string(where).substr(0, 5));
    auto upload = Uploads(context()).open(request_for(volume.id));
    ASSERT_OK(upload);
    auto request = prepare(*upload, {{"a", "alpha"}});
    ASSERT_OK(request);
    GarbageCollector gc(context());
    int marks = 0;
    Publisher publisher(context());
    publisher.set_step_hook([&](std::string_view step) -> Status {
      if (step != where || ++marks > 1) return ok();
      CAIRN_TRY(Mark mark, gc.mark(volume.store, soon()));
      CAIRN_TRY(int64_t condemned, gc.condemn(mark));
      EXPECT_GT(condemned, 0);
      return ok();
    });
    ASSERT_OK(publisher.publish(*request, soon()));
    EXPECT_EQ(marks, 2);
    EXPECT_EQ(*client().read(volume.id), (Contents{{"a", "alpha"}}));
  }
}

TEST_P(GcTest, UnfinishedUploadsKeepTheirPacksForAWeek) {
  VolumeInfo volume = make_volume("data");
  auto upload = Uploads(context()).open(request_for(volume.id));
  ASSERT_OK(upload);
  auto sent = client().send(*upload, {"waiting"});
  ASSERT_OK(sent);
  PackId pack = sent->at("waiting").place.pack;
  ASSERT_OK(Uploads(context()).close(upload->id, upload->lease.secret));
  run_time(hours(6 * 24));
  collect(volume);
  run_time(minutes(11));
  collect(volume);
  EXPECT_TRUE(exists(volume, pack));
  run_time(hours(25));
  collect(volume);
  run_time(minutes(11));
  collect(volume);
  EXPECT_FALSE(exists(volume, pack));
}

TEST_P(GcTest, RetentionKeepsWhatIsReliedOn) {
  VolumeInfo volume = make_volume("data");
  set_history("2");
  for (int i = 1; i <= 3; ++i)
    ASSERT_OK(client().put_files(volume.id, alice_.user, {{"a", "version " + std::to_string(i)}}));
  auto pin = Reads(context()).pin(volume.id, 1, "test");
  ASSERT_OK(pin);
  ASSERT_OK(Volumes(context()).tag(volume.id, 2, "good"));
  auto upload = Uploads(context()).open(request_for(volume.id));  // base 3
  ASSERT_OK(upload);
  Publisher publisher(context());
  for (int i = 4; i <= 6; ++i) {
    auto request = prepare(*upload, {{"a", "version " + std::to_string(i)}});
    ASSERT_OK(request);
    ASSERT_OK(publisher.publish(*request, soon()));
  }
  ASSERT_OK(Retention(context()).run(volume.id));
  // 6 head, 5 by the policy, 3 by the upload's own pin, 2 tagged, 1 pinned.
  EXPECT_EQ(numbers(volume.id), (std::vector<int64_t>{6, 5, 3, 2, 1}));
  ASSERT_OK(Uploads(context()).close(upload->id, upload->lease.secret));
  ASSERT_OK(Reads(context()).unpin(pin->pin));
  ASSERT_OK(Volumes(context()).tag(volume.id, 2, ""));
  ASSERT_OK(Retention(context()).run(volume.id));
  EXPECT_EQ(numbers(volume.id), (std::vector<int64_t>{6, 5}));
}

// A run that lost its lease and put its changes aside.
class SideSnapshotTest : public GcTest {
 protected:
  void SetUp() override {
    GcTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    volume_ = make_volume("data");
    set_history("off");
    ASSERT_OK(client().put_files(volume_.id, alice_.user, {{"base", "base"}}));
    auto run = Uploads(context()).open(request_for(volume_.id, HolderKind::kRun));
    ASSERT_OK(run);
    run_ = *run;
    run_time(minutes(20));
    ASSERT_OK(client().put_files(volume_.id, bob_.user, {{"bob", "was here"}}));
  }
  // Brings one more file; answers the number of the side snapshot that holds it.
  int64_t put_aside(const std::string& path) {
    auto request = prepare(run_, {{path, "from the run"}});
    EXPECT_TRUE(request);
    auto aside = Publisher(context()).publish(*request, soon());
    EXPECT_TRUE(aside && aside->side);
    return aside ? aside->snapshot : 0;
  }
  void retain() { ASSERT_OK(Retention(context()).run(volume_.id)); }
  bool there(int64_t number) { return Volumes(context()).snapshot(volume_.id, number).has_value(); }

  VolumeInfo volume_;
  OpenUpload run_;
};
CAIRN_INSTANTIATE_CATALOG(SideSnapshotTest);

TEST_P(SideSnapshotTest, KeepsItsBase) {
  int64_t aside = put_aside("a");
  ASSERT_OK(Uploads(context()).close(run_.id, run_.lease.secret));
  retain();
  EXPECT_EQ(numbers(volume_.id), (std::vector<int64_t>{aside, 2, 1}));
  ASSERT_OK(Volumes(context()).drop_side_snapshot(volume_.id, aside));
  retain();
  EXPECT_EQ(numbers(volume_.id), (std::vector<int64_t>{2}));
}

TEST_P(SideSnapshotTest, IsKeptWhileItsRunGoesOn) {
  int64_t aside = put_aside("a");
  run_time(hours(31 * 24));
  retain();
  EXPECT_TRUE(there(aside));
  int64_t next = put_aside("b");
  EXPECT_FALSE(there(aside));
  EXPECT_EQ(client().read(volume_.id, next)->size(), 3u);
  ASSERT_OK(Uploads(context()).close(run_.id, run_.lease.secret));
  run_time(hours(29 * 24));
  retain();
  EXPECT_TRUE(there(next));
  run_time(hours(2 * 24));
  retain();
  EXPECT_EQ(numbers(volume_.id), (std::vector<int64_t>{2}));
}

TEST_P(SideSnapshotTest, ReplacedOneStaysForItsReader) {
  int64_t first = put_aside("a");
  auto pin = Reads(context()).pin(volume_.id, first, "test");
  ASSERT_OK(pin);
  put_aside("b");
  retain();
  EXPECT_EQ(client().read(volume_.id, first)->size(), 2u);
  ASSERT_OK(Reads(context()).unpin(pin->pin));
  retain();
  EXPECT_FALSE(there(first));
}

TEST_P(SideSnapshotTest, ReplacedOneStaysWhileItHasATag) {
  int64_t first = put_aside("a");
  ASSERT_OK(Volumes(context()).tag(volume_.id, first, "keep"));
  int64_t second = put_aside("b");
  retain();
  EXPECT_TRUE(there(first));
  EXPECT_CODE(Code::kVolumeStateConflict, Volumes(context()).drop_side_snapshot(volume_.id, first));
  EXPECT_TRUE(there(first));
  ASSERT_OK(Volumes(context()).tag(volume_.id, first, ""));
  ASSERT_OK(Volumes(context()).drop_side_snapshot(volume_.id, first));
  EXPECT_FALSE(there(first));
  EXPECT_TRUE(there(second));
}

TEST_P(SideSnapshotTest, DroppedOneStaysForItsReader) {
  int64_t aside = put_aside("a");
  auto pin = Reads(context()).pin(volume_.id, aside, "test");
  ASSERT_OK(pin);
  ASSERT_OK(Volumes(context()).drop_side_snapshot(volume_.id, aside));
  retain();
  EXPECT_EQ(client().read(volume_.id, aside)->size(), 2u);
  // Nobody builds on it.
  int64_t next = put_aside("b");
  EXPECT_FALSE(client().read(volume_.id, next)->contains("a"));
  ASSERT_OK(Reads(context()).unpin(pin->pin));
  retain();
  EXPECT_FALSE(there(aside));
  EXPECT_CODE(Code::kSnapshotNotFound, Volumes(context()).drop_side_snapshot(volume_.id, aside));
}

// However many of them there are: each holds somebody's work.
TEST_P(SideSnapshotTest, HasNoBound) {
  for (int i = 0; i < 101; ++i) {
    ASSERT_OK(db().transact([&](catalog::Tx& tx) -> Status {
      catalog::SnapshotRow row;
      row.volume = volume_.id;
      row.number = 1'000 + i;
      row.kind = "final";
      row.side = true;
      row.side_label = "recovered/run " + std::to_string(i) + "/1";
      CAIRN_TRY(bool inserted, catalog::snapshots::insert(tx, row));
      EXPECT_TRUE(inserted);
      return ok();
    }));
  }
  EXPECT_EQ(Volumes(context()).info(alice_.user, "data")->side_snapshots.size(), 101u);
}

TEST_P(GcTest, OnlyTheNewestInterimSnapshotStays) {
  VolumeInfo volume = make_volume("data");
  auto run = Uploads(context()).open(request_for(volume.id, HolderKind::kRun));
  ASSERT_OK(run);
  Publisher publisher(context());
  for (int i = 1; i <= 4; ++i) {
    auto request = prepare(*run, {{"runs/1/m", "step " + std::to_string(i)}});
    ASSERT_OK(request);
    request->interim = i < 4;
    request->kind = i < 4 ? "checkpoint" : "final";
    ASSERT_OK(publisher.publish(*request, soon()));
    ASSERT_OK(Retention(context()).run(volume.id));
    // The open upload started from 0 and pinned it; its last publication is its base now.
    EXPECT_EQ(numbers(volume.id), (std::vector<int64_t>{i, 0}));
  }
}

TEST_P(GcTest, DaysCountFromWhenASnapshotWasReplaced) {
  VolumeInfo volume = make_volume("data");
  ASSERT_OK(client().put_files(volume.id, alice_.user, {{"a", "one"}}));
  run_time(hours(30 * 24));
  ASSERT_OK(client().put_files(volume.id, alice_.user, {{"a", "two"}}));
  run_time(hours(6 * 24));
  ASSERT_OK(Retention(context()).run(volume.id));
  EXPECT_EQ(numbers(volume.id), (std::vector<int64_t>{2, 1}));
  run_time(hours(2 * 24));
  ASSERT_OK(Retention(context()).run_all());
  EXPECT_EQ(numbers(volume.id), (std::vector<int64_t>{2}));
}

TEST_P(GcTest, TrashFreezesHistory) {
  VolumeInfo volume = make_volume("data");
  set_history("off");
  ASSERT_OK(client().put_files(volume.id, alice_.user, {{"a", "one"}}));
  ASSERT_OK(client().put_files(volume.id, alice_.user, {{"a", "two"}}));
  ASSERT_OK(Volumes(context()).remove(alice_.user, "data", false));
  EXPECT_EQ(*Retention(context()).run(volume.id), 0);
  run_time(hours(1));
  collect(volume);
  run_time(minutes(11));
  collect(volume);
  ASSERT_OK(Volumes(context()).undelete(alice_.user, "data"));
  EXPECT_EQ(*client().read(volume.id, 1), (Contents{{"a", "one"}}));
}

}  // namespace
}  // namespace cairn::volume
