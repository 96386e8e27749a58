// What an owner and an upload may have: the quota, and packs that were promised and never sent.
#include "volume/uploads.h"

#include "catalog/uploads.h"
#include "volume/volume_fixture.h"

namespace cairn::volume {
namespace {

using testing::Contents;

class UploadsTest : public VolumeTest {
 protected:
  // How long a promise is kept for a PUT that may still go on.
  Duration kept() { return context().settings.url_time + context().settings.put_time; }
  OpenUpload open(const VolumeInfo& volume, HolderKind kind = HolderKind::kUpload) {
    auto upload = Uploads(context()).open(request_for(volume.id, kind));
    EXPECT_TRUE(upload) << upload.error().to_string();
    return upload ? *upload : OpenUpload();
  }
  Status promise(const OpenUpload& upload, size_t count, int64_t size_bytes = 1'000) {
    PackWish wish;
    wish.size_bytes = size_bytes;
    auto promised = Uploads(context()).promise(upload.id, upload.lease.secret, std::vector<PackWish>(count, wish));
    if (!promised) return promised.error();
    return ok();
  }
};
CAIRN_INSTANTIATE_CATALOG(UploadsTest);

// A store that was full for hours, or answers that were lost: none of it costs the upload its room for ever.
TEST_P(UploadsTest, PromisesThatNobodyKeptAreGivenUp) {
  OpenUpload run = open(make_volume("data"), HolderKind::kRun);
  auto arrived = client().promise(run, {"arrived"});
  ASSERT_OK(arrived);
  ASSERT_OK(client().put(arrived->promised, arrived->bytes));
  auto never = client().promise(run, {"never"});
  ASSERT_OK(never);
  ASSERT_OK(promise(run, 254));
  EXPECT_CODE(Code::kLimitExceeded, promise(run, 1));
  run_time(kept() - minutes(1));  // the last PUT may be going on
  EXPECT_CODE(Code::kLimitExceeded, promise(run, 1));
  run_time(minutes(2));
  ASSERT_OK(promise(run, 256));
  EXPECT_CODE(Code::kLimitExceeded, promise(run, 1));
  ASSERT_OK(client().register_pack(run, arrived->promised.id));
  EXPECT_CODE(Code::kPackInvalid, client().register_pack(run, never->promised.id));
  // One that comes all the same is garbage, and is collected.
  ASSERT_OK(client().put(never->promised, never->bytes));
  auto key = object::ObjectKey::parse(never->promised.key);
  ASSERT_OK(key);
  run_time(hours(25));
  GarbageCollector gc(context());
  ASSERT_OK(gc.run(run.store, soon()));
  EXPECT_CODE(Code::kObjectNotFound, store_.head(*key, soon()));
}

TEST_P(UploadsTest, ResumeAndRegistrationGiveUpToo) {
  OpenUpload run = open(make_volume("data"), HolderKind::kRun);
  Uploads uploads(context());
  std::vector<PackId> packs;
  for (int i = 0; i < 2; ++i) {
    auto built = client().promise(run, {"text " + std::to_string(i)});
    ASSERT_OK(built);
    packs.push_back(built->promised.id);
  }
  auto upload_row = [&] {
    auto row = db().read([&](catalog::Tx& tx) { return catalog::uploads::find(tx, run.id); });
    EXPECT_TRUE(row && *row);
    return **row;
  };
  ASSERT_OK(uploads.resumable(run.id, run.lease.secret, PackId(), 10));
  EXPECT_CODE(Code::kObjectNotFound, client().register_pack(run, packs[0]));
  EXPECT_EQ(upload_row().promised_count, 2);  // they may still come
  run_time(kept() + minutes(1));
  EXPECT_CODE(Code::kObjectNotFound, client().register_pack(run, packs[0]));
  EXPECT_EQ(upload_row().promised_count, 1);
  ASSERT_OK(uploads.resumable(run.id, run.lease.secret, PackId(), 10));
  EXPECT_EQ(upload_row().promised_count, 0);
}

class QuotaTest : public UploadsTest {
 protected:
  Settings settings() override {
    Settings settings;
    settings.owner_quota_bytes = 10'000;
    return settings;
  }
};
CAIRN_INSTANTIATE_CATALOG(QuotaTest);

TEST_P(QuotaTest, RefusesPutAlone) {
  VolumeInfo volume = make_volume("data");
  OpenUpload put = open(volume);
  EXPECT_CODE(Code::kQuotaExceeded, promise(put, 1, 10'001));
  ASSERT_OK(Uploads(context()).close(put.id, put.lease.secret));
  // What a run made is kept, and counts.
  OpenUpload run = open(volume, HolderKind::kRun);
  ASSERT_OK(promise(run, 1, 20'000));
  Publisher publisher(context());
  auto request = prepare(run, {{"runs/1/a", "alpha"}, {"b", "beta"}});
  ASSERT_OK(request);
  auto published = publisher.publish(*request, soon());
  ASSERT_OK(published);
  EXPECT_FALSE(published->side);
  ASSERT_OK(Uploads(context()).close(run.id, run.lease.secret));
  OpenUpload late = open(volume);
  EXPECT_CODE(Code::kQuotaExceeded, promise(late, 1));
  ASSERT_OK(Uploads(context()).close(late.id, late.lease.secret));
  // And `rm` is the way out.
  RemoveRequest removal;
  removal.request = RequestId::random(random());
  removal.volume = volume.id;
  removal.actor = alice_;
  removal.paths = {"b"};
  ASSERT_OK(publisher.remove(removal, soon()));
  EXPECT_EQ(*client().read(volume.id), (Contents{{"runs/1/a", "alpha"}}));
}

TEST_P(QuotaTest, GivenUpPromisesDoNotCount) {
  OpenUpload put = open(make_volume("data"));
  ASSERT_OK(promise(put, 1, 9'000));
  EXPECT_CODE(Code::kQuotaExceeded, promise(put, 1, 9'000));
  run_time(kept() + minutes(1));
  ASSERT_OK(promise(put, 1, 9'000));
}

}  // namespace
}  // namespace cairn::volume
