// What an owner may have: the quota.
#include "volume/uploads.h"

#include "volume/volume_fixture.h"

namespace cairn::volume {
namespace {

using testing::Contents;

class UploadsTest : public VolumeTest {
 protected:
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

}  // namespace
}  // namespace cairn::volume
