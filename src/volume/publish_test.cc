#include "volume/publish.h"

#include <thread>

#include "catalog/packs.h"
#include "store/pack.h"
#include "volume/history.h"
#include "volume/volume_fixture.h"

namespace cairn::volume {
namespace {

using testing::Changes;
using testing::Contents;

using PublishTest = VolumeTest;
CAIRN_INSTANTIATE_CATALOG(PublishTest);

TEST_P(PublishTest, PutReadAndPutAgain) {
  VolumeInfo volume = make_volume("data");
  Contents files = {{"a", "alpha"}, {"d/b", "beta"}, {"empty", ""}};
  auto first = client().put_files(volume.id, alice_.user, files);
  ASSERT_OK(first);
  EXPECT_EQ(first->snapshot, 1);
  EXPECT_EQ(first->files, 3);
  EXPECT_EQ(first->bytes, 9);
  EXPECT_EQ(*client().read(volume.id), files);
  auto second = client().put_files(volume.id, alice_.user, {{"a", "other"}}, {"d"});
  ASSERT_OK(second);
  EXPECT_EQ(second->snapshot, 2);
  EXPECT_EQ(*client().read(volume.id), (Contents{{"a", "other"}, {"empty", ""}}));
  EXPECT_EQ(*client().read(volume.id, 1), files);
  // Nothing changes: nothing is published.
  auto third = client().put_files(volume.id, alice_.user, {{"a", "other"}});
  ASSERT_OK(third);
  EXPECT_EQ(third->snapshot, 2);
  auto info = Volumes(context()).info(alice_.user, "data");
  ASSERT_OK(info);
  EXPECT_EQ(info->head, 2);
  EXPECT_EQ(info->used_bytes, 5);
  EXPECT_FALSE(info->writer.has_value());
}

TEST_P(PublishTest, SameRequestAttachesOtherBodyIsRefused) {
  VolumeInfo volume = make_volume("data");
  auto upload = Uploads(context()).open(request_for(volume.id));
  ASSERT_OK(upload);
  auto request = prepare(*upload, {{"a", "alpha"}});
  ASSERT_OK(request);
  Publisher publisher(context());
  auto first = publisher.publish(*request, soon());
  ASSERT_OK(first);
  ASSERT_OK(Uploads(context()).close(upload->id, upload->lease.secret));
  auto again = Publisher(context()).publish(*request, soon());
  ASSERT_OK(again);
  EXPECT_EQ(again->snapshot, first->snapshot);
  EXPECT_EQ(again->root, first->root);
  PublishRequest other = *request;
  other.message = "something else";
  EXPECT_CODE(Code::kRequestIdReused, publisher.publish(other, soon()));
  // A refusal is a result too.
  PublishRequest late = *request;
  late.request = RequestId::random(random());
  EXPECT_CODE(Code::kLeaseLost, publisher.publish(late, soon()));
}

TEST_P(PublishTest, RunsIsForRuns) {
  VolumeInfo volume = make_volume("data");
  auto upload = Uploads(context()).open(request_for(volume.id));
  ASSERT_OK(upload);
  Publisher publisher(context());
  for (const Contents& files : {Contents{{"runs", "x"}}, Contents{{"runs/r1/x", "x"}}}) {
    auto request = prepare(*upload, files);
    ASSERT_OK(request);
    EXPECT_CODE(Code::kRunsReadOnly, publisher.publish(*request, soon()));
  }
  auto removal = prepare(*upload, {}, {"runs"});
  ASSERT_OK(removal);
  EXPECT_CODE(Code::kRunsReadOnly, publisher.publish(*removal, soon()));
  auto neighbour = prepare(*upload, {{"runs.txt", "x"}, {"run/x", "x"}});
  ASSERT_OK(neighbour);
  ASSERT_OK(publisher.publish(*neighbour, soon()));
  ASSERT_OK(Uploads(context()).close(upload->id, upload->lease.secret));
  auto run = Uploads(context()).open(request_for(volume.id, HolderKind::kRun));
  ASSERT_OK(run);
  auto allowed = prepare(*run, {{"runs/r1/x", "x"}});
  ASSERT_OK(allowed);
  ASSERT_OK(publisher.publish(*allowed, soon()));
}

TEST_P(PublishTest, FileWhereAFolderStands) {
  VolumeInfo volume = make_volume("data");
  ASSERT_OK(client().put_files(volume.id, alice_.user, {{"a/b", "beta"}, {"f", "file"}}));
  EXPECT_CODE(Code::kPathTypeConflict, client().put_files(volume.id, alice_.user, {{"a", "file"}}));
  EXPECT_CODE(Code::kPathTypeConflict, client().put_files(volume.id, alice_.user, {{"f/x", "below"}}));
  ASSERT_OK(client().put_files(volume.id, alice_.user, {{"a", "file"}}, {"a"}));
}

TEST_P(PublishTest, ContentsMustFit) {
  VolumeInfo volume = make_volume("data", 10);
  auto refused = client().put_files(volume.id, alice_.user, {{"a", "0123456789x"}});
  EXPECT_CODE(Code::kContentsExceedSize, refused);
  EXPECT_NE(refused.error().message().find("11 bytes"), std::string::npos) << refused.error().message();
  EXPECT_NE(refused.error().hint().find("cairn volumes expand data --size"), std::string::npos);
  ASSERT_OK(client().put_files(volume.id, alice_.user, {{"a", "0123456789"}}));
}

TEST_P(PublishTest, RunTooLargeGoesAsideAndComesBack) {
  VolumeInfo volume = make_volume("data", 10);
  auto run = Uploads(context()).open(request_for(volume.id, HolderKind::kRun));
  ASSERT_OK(run);
  Publisher publisher(context());
  auto request = prepare(*run, {{"runs/1/a", "0123456789x"}});
  ASSERT_OK(request);
  auto aside = publisher.publish(*request, soon());
  ASSERT_OK(aside);
  EXPECT_TRUE(aside->side);
  EXPECT_EQ(aside->side_label, "recovered/run 1/1");
  EXPECT_EQ(aside->side_reason, "contents_exceed_size");
  EXPECT_TRUE(client().read(volume.id)->empty());
  EXPECT_EQ(client().read(volume.id, aside->snapshot)->size(), 1u);
  ASSERT_EQ(Volumes(context()).info(alice_.user, "data")->side_snapshots.size(), 1u);
  // What comes next builds on it, and once there is room all of it becomes the head.
  ASSERT_OK(Volumes(context()).expand(alice_.user, "data", 100));
  auto next = prepare(*run, {{"runs/1/b", "beta"}});
  ASSERT_OK(next);
  auto head = publisher.publish(*next, soon());
  ASSERT_OK(head);
  EXPECT_FALSE(head->side);
  EXPECT_EQ(*client().read(volume.id), (Contents{{"runs/1/a", "0123456789x"}, {"runs/1/b", "beta"}}));
  EXPECT_TRUE(Volumes(context()).info(alice_.user, "data")->side_snapshots.empty());
}

TEST_P(PublishTest, FencedOffRunGoesAsideUploadIsRefused) {
  VolumeInfo volume = make_volume("data");
  ASSERT_OK(client().put_files(volume.id, alice_.user, {{"base", "base"}}));
  auto run = Uploads(context()).open(request_for(volume.id, HolderKind::kRun));
  ASSERT_OK(run);
  auto request = prepare(*run, {{"runs/1/a", "alpha"}});
  ASSERT_OK(request);
  run_time(minutes(20));
  ASSERT_OK(client().put_files(volume.id, bob_.user, {{"bob", "was here"}}));
  Publisher publisher(context());
  auto aside = publisher.publish(*request, soon());
  ASSERT_OK(aside);
  EXPECT_TRUE(aside->side);
  EXPECT_EQ(aside->side_reason, "lease_lost");
  EXPECT_EQ(*client().read(volume.id), (Contents{{"base", "base"}, {"bob", "was here"}}));
  EXPECT_EQ(*client().read(volume.id, aside->snapshot), (Contents{{"base", "base"}, {"runs/1/a", "alpha"}}));
  // Later ones extend it: one side snapshot per lease.
  auto more = prepare(*run, {{"runs/1/b", "beta"}});
  ASSERT_OK(more);
  auto extended = publisher.publish(*more, soon());
  ASSERT_OK(extended);
  EXPECT_EQ(*client().read(volume.id, extended->snapshot),
            (Contents{{"base", "base"}, {"runs/1/a", "alpha"}, {"runs/1/b", "beta"}}));
  EXPECT_EQ(Volumes(context()).info(alice_.user, "data")->side_snapshots.size(), 1u);

  auto upload = Uploads(context()).open(request_for(volume.id));
  ASSERT_OK(upload);
  auto late = prepare(*upload, {{"c", "gamma"}});
  ASSERT_OK(late);
  run_time(minutes(20));
  ASSERT_OK(client().put_files(volume.id, bob_.user, {{"bob", "again"}}));
  EXPECT_CODE(Code::kLeaseLost, publisher.publish(*late, soon()));
}

TEST_P(PublishTest, PlacesAreLookedUp) {
  VolumeInfo mine = make_volume("mine");
  auto bobs_volume = Volumes(context()).create(bob_, "bobs", {});
  ASSERT_OK(bobs_volume);
  ASSERT_OK(client().put_files(bobs_volume->id, bob_.user, {{"secret", "bob's secret"}}));
  auto bobs = client().read_with_places(bobs_volume->id);
  ASSERT_OK(bobs);
  auto upload = Uploads(context()).open(request_for(mine.id));
  ASSERT_OK(upload);
  auto chunks = client().send(*upload, {"alpha"});
  ASSERT_OK(chunks);
  Publisher publisher(context());
  auto publish = [&](const std::string& text, const store::ChunkRef& chunk) -> Result<Publication> {
    Changes changes;
    changes.puts["x"] = {text, chunk};
    PublishRequest request;
    request.request = RequestId::random(random());
    request.upload = upload->id;
    request.secret = upload->lease.secret;
    CAIRN_TRY(request.changeset, client().send_changeset(*upload, changes));
    return publisher.publish(request, soon());
  };
  store::ChunkRef moved = chunks->at("alpha");
  moved.place.offset += 1;
  EXPECT_CODE(Code::kChangesetInvalid, publish("alpha", moved));
  store::ChunkRef other = chunks->at("alpha");
  other.hash.bytes[0] ^= 1;
  EXPECT_CODE(Code::kChangesetInvalid, publish("alpha", other));
  // Another person's pack is as good as not there.
  auto gone = publish("bob's secret", *bobs->at("secret").second);
  EXPECT_CODE(Code::kChunksGone, gone);
  EXPECT_NE(gone.error().message().find(bobs->at("secret").second->place.pack.hex()), std::string::npos);
  ASSERT_OK(publish("alpha", chunks->at("alpha")));
  // And its URL is not granted.
  auto pin = Reads(context()).pin(mine.id, {}, "test");
  ASSERT_OK(pin);
  EXPECT_CODE(Code::kObjectNotFound, Reads(context()).grant(pin->pin, {bobs->at("secret").second->place.pack}));
}

TEST_P(PublishTest, RegistrationComparesWhatArrived) {
  VolumeInfo volume = make_volume("data");
  Uploads uploads(context());
  auto upload = uploads.open(request_for(volume.id));
  ASSERT_OK(upload);
  auto built = client().promise(*upload, {"alpha"});
  ASSERT_OK(built);
  auto absent = uploads.register_packs(upload->id, upload->lease.secret, {built->promised.id});
  ASSERT_OK(absent);
  ASSERT_EQ(absent->rejected.size(), 1u);
  EXPECT_EQ(absent->rejected.front().error.code(), Code::kObjectNotFound);
  codec::Bytes wrong = built->bytes;
  wrong[wrong.size() / 2] ^= 1;
  ASSERT_OK(client().put(built->promised, wrong));
  auto damaged = uploads.register_packs(upload->id, upload->lease.secret, {built->promised.id});
  ASSERT_OK(damaged);
  ASSERT_EQ(damaged->rejected.size(), 1u);
  EXPECT_EQ(damaged->rejected.front().error.code(), Code::kPackInvalid);
  EXPECT_CODE(Code::kNotAllowed, uploads.register_packs(upload->id, "wrong", {built->promised.id}));
  EXPECT_CODE(Code::kNotAllowed, uploads.promise(upload->id, "wrong", {}));
  PackWish big;
  big.size_bytes = static_cast<int64_t>(limits::kPackBytesMax) + 1;
  EXPECT_CODE(Code::kRequestInvalid, uploads.promise(upload->id, upload->lease.secret, {big}));
}

TEST_P(PublishTest, PromisesAreBounded) {
  VolumeInfo volume = make_volume("data");
  Uploads uploads(context());
  auto upload = uploads.open(request_for(volume.id));
  ASSERT_OK(upload);
  PackWish wish;
  wish.size_bytes = 1'000;
  ASSERT_OK(uploads.promise(upload->id, upload->lease.secret, std::vector<PackWish>(200, wish)));
  EXPECT_CODE(Code::kLimitExceeded, uploads.promise(upload->id, upload->lease.secret, std::vector<PackWish>(57, wish)));
  ASSERT_OK(uploads.promise(upload->id, upload->lease.secret, std::vector<PackWish>(56, wish)));
}

TEST_P(PublishTest, ResumeFindsWhatArrived) {
  VolumeInfo volume = make_volume("data");
  Uploads uploads(context());
  auto first = uploads.open(request_for(volume.id));
  ASSERT_OK(first);
  auto sent = client().send(*first, {"registered"});
  ASSERT_OK(sent);
  auto arrived = client().promise(*first, {"arrived"});
  ASSERT_OK(arrived);
  ASSERT_OK(client().put(arrived->promised, arrived->bytes));
  auto never = client().promise(*first, {"never"});
  ASSERT_OK(never);
  ASSERT_OK(uploads.close(first->id, first->lease.secret));  // Ctrl-C
  run_time(hours(6 * 24));
  auto second = uploads.open(request_for(volume.id));
  ASSERT_OK(second);
  auto packs = uploads.resumable(second->id, second->lease.secret, PackId(), 100);
  ASSERT_OK(packs);
  std::set<PackId> ids;
  for (const RegisteredPack& pack : *packs) ids.insert(pack.id);
  EXPECT_EQ(ids, (std::set<PackId>{sent->at("registered").place.pack, arrived->promised.id}));
  Changes changes;
  changes.puts["a"] = {"registered", sent->at("registered")};
  changes.puts["b"] = {"arrived", arrived->chunks.at("arrived")};
  PublishRequest request;
  request.request = RequestId::random(random());
  request.upload = second->id;
  request.secret = second->lease.secret;
  request.changeset = *client().send_changeset(*second, changes);
  ASSERT_OK(Publisher(context()).publish(request, soon()));
  EXPECT_EQ(*client().read(volume.id), (Contents{{"a", "registered"}, {"b", "arrived"}}));
}

TEST_P(PublishTest, RemoveAtTheServer) {
  VolumeInfo volume = make_volume("data");
  auto run = Uploads(context()).open(request_for(volume.id, HolderKind::kRun));
  ASSERT_OK(run);
  auto request = prepare(*run, {{"a", "alpha"}, {"d/x", "x"}, {"d/y", "y"}, {"runs/1/m", "m"}});
  ASSERT_OK(request);
  Publisher publisher(context());
  ASSERT_OK(publisher.publish(*request, soon()));
  RemoveRequest removal;
  removal.request = RequestId::random(random());
  removal.volume = volume.id;
  removal.actor = alice_;
  removal.paths = {"d/x", "d", "runs/1"};
  EXPECT_CODE(Code::kWriterLeaseHeld, publisher.remove(removal, soon()));
  ASSERT_OK(Uploads(context()).close(run->id, run->lease.secret));
  auto removed = publisher.remove(removal, soon());
  ASSERT_OK(removed);
  EXPECT_EQ(*client().read(volume.id), (Contents{{"a", "alpha"}}));
  EXPECT_EQ(publisher.remove(removal, soon())->snapshot, removed->snapshot);  // the same request again
  EXPECT_FALSE(Leases(context()).current(volume.id)->has_value());
  removal.request = RequestId::random(random());
  EXPECT_CODE(Code::kPathNotFound, publisher.remove(removal, soon()));
  EXPECT_FALSE(Leases(context()).current(volume.id)->has_value());
  removal.paths = {""};
  EXPECT_CODE(Code::kPathInvalid, publisher.remove(removal, soon()));
}

TEST_P(PublishTest, ReadsAreBoundedAndExact) {
  VolumeInfo volume = make_volume("data");
  Contents files;
  for (int i = 0; i < 300; ++i)
    files["d" + std::to_string(i % 3) + "/f" + std::to_string(i)] = "text " + std::to_string(i);
  ASSERT_OK(client().put_files(volume.id, alice_.user, files));
  EXPECT_EQ(*client().read(volume.id), files);
  Reads reads(context());
  auto top = reads.ls(volume.id, {}, "", "", 2);
  ASSERT_OK(top);
  ASSERT_EQ(top->entries.size(), 2u);
  EXPECT_TRUE(top->more);
  EXPECT_EQ(top->entries[0].path, "d0");
  EXPECT_TRUE(top->entries[0].implied);
  auto rest = reads.ls(volume.id, {}, "", top->next_after, 2);
  ASSERT_OK(rest);
  EXPECT_EQ(rest->entries.size(), 1u);
  EXPECT_FALSE(rest->more);
  auto counts = reads.du(volume.id, {}, "d1");
  ASSERT_OK(counts);
  EXPECT_EQ(counts->files, 100);
  EXPECT_CODE(Code::kPathNotFound, reads.du(volume.id, {}, "nothing"));
  EXPECT_EQ(reads.stat(volume.id, {}, "d1/f1")->size_bytes, 6);
  EXPECT_CODE(Code::kPathNotFound, reads.stat(volume.id, {}, "d1/f2"));
  EXPECT_CODE(Code::kPathInvalid, reads.stat(volume.id, {}, "../x"));
  EXPECT_CODE(Code::kSnapshotNotFound, reads.ls(volume.id, {{}, 77}, "", "", 10));
  EXPECT_CODE(Code::kPinNotFound, reads.ls(volume.id, {PinId::random(random()), {}}, "", "", 10));
}

TEST_P(PublishTest, PinsAreBoundedAndDie) {
  VolumeInfo volume = make_volume("data");
  ASSERT_OK(client().put_files(volume.id, alice_.user, {{"a", "alpha"}}));
  Reads reads(context());
  std::optional<PinId> first;
  for (uint64_t i = 0; i < limits::kPinsPerVolumeMax; ++i) {
    auto pin = reads.pin(volume.id, {}, "reader");
    ASSERT_OK(pin);
    if (!first) first = pin->pin;
  }
  EXPECT_CODE(Code::kLimitExceeded, reads.pin(volume.id, {}, "reader"));
  run_time(hours(23));
  ASSERT_OK(reads.renew(*first));
  run_time(hours(23));
  ASSERT_OK(reads.pin(volume.id, {}, "reader"));  // all but the renewed one are dead
  ASSERT_OK(reads.renew(*first));
  run_time(hours(25));
  EXPECT_CODE(Code::kPinNotFound, reads.renew(*first));
}

TEST_P(PublishTest, KilledReadersMakeRoomForOthersAndNoWriterWaitsForThem) {
  VolumeInfo volume = make_volume("data");
  ASSERT_OK(client().put_files(volume.id, alice_.user, {{"a", "alpha"}}));
  Reads reads(context());
  std::vector<PinId> pins;
  for (uint64_t i = 0; i < limits::kPinsPerVolumeMax; ++i) {
    auto pin = reads.pin(volume.id, {}, "reader");
    ASSERT_OK(pin);
    pins.push_back(pin->pin);
  }
  ASSERT_OK(client().put_files(volume.id, alice_.user, {{"b", "beta"}}));
  // All are alive until URLs they may have got are dead.
  run_time(minutes(50));
  for (size_t i = 0; i < pins.size(); ++i) {
    if (i == 7) continue;
    ASSERT_OK(reads.renew(pins[i]));
  }
  EXPECT_CODE(Code::kLimitExceeded, reads.pin(volume.id, {}, "reader"));
  run_time(minutes(20));
  ASSERT_OK(reads.pin(volume.id, {}, "reader"));
  EXPECT_CODE(Code::kPinNotFound, reads.renew(pins[7]));
  EXPECT_CODE(Code::kLimitExceeded, reads.pin(volume.id, {}, "reader"));
  for (size_t i = 0; i < pins.size(); ++i) {
    if (i == 7) continue;
    ASSERT_OK(reads.renew(pins[i]));
  }
}

TEST_P(PublishTest, PinsOfUploadsEndWithThem) {
  VolumeInfo volume = make_volume("data");
  auto killed = Uploads(context()).open(request_for(volume.id));
  ASSERT_OK(killed);
  run_time(minutes(20));
  auto living = Uploads(context()).open(request_for(volume.id));
  ASSERT_OK(living);
  ASSERT_OK(Retention(context()).run_all());
  EXPECT_CODE(Code::kPinNotFound, Reads(context()).renew(killed->pin));
  ASSERT_OK(Reads(context()).renew(living->pin));
}

// One Publisher, one Context, several threads: as a server uses them.
TEST_P(PublishTest, ManyAtOnce) {
  Context shared(db(), store_, system_clock(), system_random());
  Publisher publisher(shared);
  Reads reads(shared);
  std::vector<VolumeInfo> volumes;
  for (int i = 0; i < 4; ++i) volumes.push_back(make_volume("v" + std::to_string(i)));
  std::vector<std::thread> threads;
  for (const VolumeInfo& volume : volumes) {
    threads.emplace_back([&] {
      testing::StorageClient own(shared, store_);
      for (int round = 1; round <= 5; ++round) {
        LeaseRequest request = request_for(volume.id);
        auto upload = Uploads(shared).open(request);
        ASSERT_OK(upload);
        auto chunks = own.send(*upload, {"round " + std::to_string(round)});
        ASSERT_OK(chunks);
        Changes changes;
        changes.puts["f" + std::to_string(round)] = {chunks->begin()->first, chunks->begin()->second};
        auto changeset = own.send_changeset(*upload, changes);
        ASSERT_OK(changeset);
        PublishRequest publish;
        publish.request = RequestId::random(system_random());
        publish.upload = upload->id;
        publish.secret = upload->lease.secret;
        publish.changeset = *changeset;
        ASSERT_OK(publisher.publish(publish, Deadline::after(minutes(1))));
        ASSERT_OK(Uploads(shared).close(upload->id, upload->lease.secret));
        EXPECT_EQ(reads.du(volume.id, {}, "")->files, round);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Random changesets against a map.
TEST_P(PublishTest, AgreesWithTheModel) {
  VolumeInfo volume = make_volume("data");
  SeededRandom dice(5);
  Contents model;
  std::map<int64_t, Contents> kept;
  for (int step = 0; step < 40; ++step) {
    Contents files;
    std::set<std::string, store::PathLess> deletes;
    auto path = [&] {
      return std::string(1, static_cast<char>('a' + dice.below(4))) + "/" + std::to_string(dice.below(12));
    };
    for (uint64_t i = dice.below(5); i > 0; --i) files[path()] = "content " + std::to_string(dice.below(30));
    for (uint64_t i = dice.below(3); i > 0; --i) deletes.insert(dice.below(4) == 0 ? path().substr(0, 1) : path());
    auto published = client().put_files(volume.id, alice_.user, files, deletes);
    ASSERT_OK(published);
    Changes changes;
    changes.deletes = deletes;
    for (const auto& [name, text] : files) changes.puts[name] = {text, {}};
    changes.apply_to(model);
    kept[published->snapshot] = model;
    ASSERT_EQ(*client().read(volume.id), model) << "step " << step;
    EXPECT_EQ(published->files, static_cast<int64_t>(model.size()));
  }
  for (const auto& [number, contents] : kept) ASSERT_EQ(*client().read(volume.id, number), contents) << number;
}

}  // namespace
}  // namespace cairn::volume
