#include "server/object_routes.h"

#include "base/limits.h"
#include "codec/crc32c.h"
#include "codec/hex.h"
#include "server/reply.h"

namespace cairn::server {
namespace {

class PutSink final : public http::BodySink {
 public:
  PutSink(std::unique_ptr<object::ObjectWriter> writer, SignedObject object, Deadline deadline)
      : writer_(std::move(writer)), object_(std::move(object)), deadline_(std::move(deadline)) {}

  // The URL was looked at when the PUT began: an end to it is what a removed volume's store waits for.
  Status write(std::span<const uint8_t> piece) override {
    CAIRN_CHECK_OK(deadline_.check());
    crc32c_ = codec::crc32c(piece, crc32c_);
    return writer_->append(piece);
  }

  http::Response finish() override {
    if (crc32c_ != object_.crc32c) {
      return refusal(Error(Code::kPackInvalid, "the bytes have CRC32C " + codec::hex_u32(crc32c_) +
                                                          "; the URL was signed for " + codec::hex_u32(object_.crc32c)));
    }
    if (Status late = deadline_.check(); !late) return refusal(late.error());
    Status committed = writer_->commit();
    if (!committed) return refusal(committed.error());
    return http::Response::json(200, "{}");
  }

 private:
  std::unique_ptr<object::ObjectWriter> writer_;
  SignedObject object_;
  Deadline deadline_;
  uint32_t crc32c_ = 0;
};

}  // namespace

http::RoutePlan ObjectRoutes::plan(const http::RequestHead& head) {
  if (head.method == "GET") {
    return http::RoutePlan::buffered("GET /store", [this](const http::Request& request) { return get(request); }, 0);
  }
  if (head.method == "PUT") {
    auto plan = http::RoutePlan::upload("PUT /store", [this](const http::Request& request) { return open_put(request); },
                                        limits::kChangesetBytesMax);
    plan.time_limit = kPutTime;
    return plan;
  }
  return http::RoutePlan::answer("/store", refusal(Error(Code::kMethodNotAllowed, "objects take GET and PUT")));
}

http::Response ObjectRoutes::get(const http::Request& request) {
  auto object = urls_.check("GET", request.raw_path, request.raw_query);
  if (!object) return refusal(object.error());
  auto opened = objects_.open(object->key, request.deadline);
  if (!opened) return refusal(opened.error());
  std::shared_ptr<object::ObjectReader> reader = *std::move(opened);
  if (reader->size() != object->size_bytes) {
    return refusal(Error(Code::kDataCorrupt, "object " + object->key.text() + " has " + std::to_string(reader->size()) +
                                                        " bytes; it was stored with " + std::to_string(object->size_bytes)));
  }
  http::Response response;
  response.headers.add("Content-Type", "application/octet-stream");
  if (reader->native_fd() >= 0) {
    response.file = http::FileBody::borrowing(reader->native_fd(), reader, 0, object->size_bytes);
    return response;
  }
  // A store without files (tests): through memory.
  if (object->size_bytes > limits::kPackBytesMax) {
    return refusal(Error(Code::kLimitExceeded, "object " + object->key.text() + " is too large to be sent from memory"));
  }
  auto bytes = objects_.get(object->key, 0, object->size_bytes, request.deadline);
  if (!bytes) return refusal(bytes.error());
  response.body.assign(bytes->begin(), bytes->end());
  response.accept_ranges = true;
  return response;
}

Result<std::unique_ptr<http::BodySink>> ObjectRoutes::open_put(const http::Request& request) {
  CAIRN_TRY(SignedObject object, urls_.check("PUT", request.raw_path, request.raw_query));
  if (request.content_length != object.size_bytes) {
    return Error(Code::kRequestInvalid, "the body has " + std::to_string(request.content_length) +
                                            " bytes; the URL was signed for " + std::to_string(object.size_bytes));
  }
  CAIRN_TRY(auto writer, objects_.create(object.key, object.size_bytes, request.deadline));
  return std::unique_ptr<http::BodySink>(
      std::make_unique<PutSink>(std::move(writer), std::move(object), request.deadline));
}

}  // namespace cairn::server
