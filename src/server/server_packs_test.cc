// Packs over HTTP: what a signed URL grants, and nothing more.
#include <algorithm>
#include <filesystem>

#include "codec/crc32c.h"
#include "object/memory_store.h"
#include "server/object_routes.h"
#include "server/server_fixture.h"

namespace cairn::server {
namespace {

class PackTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    ASSERT_OK(admin_->create_volume({"research", {}, {}}, soon()));
    auto upload = admin_->open_upload("research", {"here:/data", "", false, {}}, soon());
    ASSERT_TRUE(upload) << upload.error().to_string();
    upload_ = *upload;
  }
  std::span<const uint8_t> bytes() const { return {reinterpret_cast<const uint8_t*>(text_.data()), text_.size()}; }
  api::PackUrl promise(uint32_t crc32c) {
    auto grant = admin_->request_packs(
        upload_.upload, {upload_.secret, {}, {{text_.size(), crc32c, api::PackKind::kChangeset}}}, soon());
    EXPECT_TRUE(grant) << grant.error().to_string();
    return grant ? grant->promised.at(0) : api::PackUrl();
  }

  std::string text_ = std::string(100'000, 'x');
  api::Upload upload_;
};

TEST_F(PackTest, OnePutOfExactlyTheseBytes) {
  api::PackUrl pack = promise(codec::crc32c(bytes()));
  EXPECT_CODE(Code::kRequestInvalid, admin_->put_object(pack.url, bytes().subspan(1), soon()));
  EXPECT_CODE(Code::kUrlInvalid, admin_->put_object(pack.url + "0", bytes(), soon()));
  ASSERT_OK(admin_->put_object(pack.url, bytes(), soon()));
  EXPECT_CODE(Code::kObjectExists, admin_->put_object(pack.url, bytes(), soon()));
  std::vector<uint8_t> out(10);
  EXPECT_CODE(Code::kUrlInvalid, admin_->get_object(pack.url, 0, out, soon()));  // a PUT's URL reads nothing
}

TEST_F(PackTest, OtherBytesAreRefusedAndLeaveNothing) {
  api::PackUrl pack = promise(codec::crc32c(bytes()) + 1);
  EXPECT_CODE(Code::kPackInvalid, admin_->put_object(pack.url, bytes(), soon()));
  EXPECT_CODE(Code::kObjectNotFound, admin_->request_packs(upload_.upload, {upload_.secret, {pack.pack}, {}}, soon()));
  size_t left = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(settings_.data_dir + "/store/tmp")) {
    left += entry.is_regular_file();
  }
  EXPECT_EQ(left, 0u);
}

TEST_F(PackTest, RangesComeFromTheFile) {
  auto sent = [&] {
    EXPECT_TRUE(admin_->close_upload(upload_.upload, {upload_.secret}, soon()));
    return put("research", write_tree() + "/", "/");
  }();
  ASSERT_TRUE(sent) << sent.error().to_string();
  auto upload = admin_->open_upload("research", {"here:/data", "", false, {}}, soon());
  ASSERT_OK(upload);
  // A second put that was not published leaves a pack to resume from: read it through its GET URL.
  upload_ = *upload;
  api::PackUrl pack = promise(codec::crc32c(bytes()));
  ASSERT_OK(admin_->put_object(pack.url, bytes(), soon()));
  auto pin = admin_->create_pin("research", {}, soon());
  ASSERT_OK(pin);
  auto listing = admin_->listing("research", {pin->pin, "", {}, 1 << 20}, soon());
  ASSERT_OK(listing);
  EXPECT_FALSE(listing->changeset.empty());
  EXPECT_CODE(Code::kObjectNotFound, admin_->request_urls("research", {pin->pin, {pack.pack}}, soon()));
  ASSERT_OK(admin_->delete_pin(pin->pin, soon()));
  EXPECT_CODE(Code::kPinNotFound, admin_->listing("research", {pin->pin, "", {}, 1 << 20}, soon()));
}

TEST_F(PackTest, ALostLeaseIsSaid) {
  auto taken = admin_->open_upload("research", {"elsewhere", upload_.secret, false, {}}, soon());
  ASSERT_OK(taken);
  EXPECT_GT(taken->fence, upload_.fence);
  EXPECT_CODE(Code::kLeaseLost, admin_->heartbeat_upload(upload_.upload, {upload_.secret}, soon()));
  ASSERT_OK(admin_->heartbeat_upload(taken->upload, {taken->secret}, soon()));
  ASSERT_OK(admin_->close_upload(taken->upload, {taken->secret}, soon()));
  ASSERT_OK(admin_->close_upload(taken->upload, {taken->secret}, soon()));
}

TEST(ObjectRoutesTest, APutHasAnEnd) {
  object::MemoryStore store;
  ManualClock clock;
  SignedUrls urls(codec::Bytes(SignedUrls::kSecretBytes, 1), clock);
  ObjectRoutes routes(store, urls);
  const codec::Bytes bytes = {1, 2, 3, 4};
  auto key = object::ObjectKey::of("s/1/p/1");
  std::string url = urls.put(key, bytes.size(), codec::crc32c(bytes)).text;
  http::RequestHead head;
  head.method = "PUT";
  head.raw_path = url.substr(0, url.find('?'));
  http::RoutePlan plan = routes.plan(head);
  http::Request request;
  request.raw_path = head.raw_path;
  request.raw_query = url.substr(url.find('?') + 1);
  request.content_length = bytes.size();
  request.deadline = Deadline::after(plan.time_limit, clock);
  auto sink = plan.open(request);
  ASSERT_TRUE(sink) << sink.error().to_string();
  std::span<const uint8_t> piece(bytes);
  ASSERT_OK((*sink)->write(piece.first(2)));
  clock.advance(plan.time_limit + seconds(1));
  EXPECT_FALSE((*sink)->write(piece.subspan(2)));
  EXPECT_NE((*sink)->finish().status, 200);
  EXPECT_EQ(store.object_count(), 0u);
}

}  // namespace
}  // namespace cairn::server
