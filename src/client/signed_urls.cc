// GET and PUT of objects behind signed URLs. Their query holds a signature, so no message repeats it.
#include <algorithm>
#include <cstring>

#include "api/json.h"
#include "client/api_client.h"
#include "net/transport.h"

namespace cairn::client {
namespace {

// The URL without its query: what may stand in a message.
std::string shown(const std::string& url) { return url.substr(0, url.find('?')); }

// Refusals of our own server are JSON; an S3 store answers XML, of which the status says enough.
Error object_error(const std::string& url, const net::HttpResponse& response) {
  if (auto error = api::error_from_json(response.body, response.status)) return *std::move(error);
  std::string text = shown(url) + " answered HTTP " + std::to_string(response.status);
  switch (response.status) {
    case 408: return Error(Code::kStoreUnavailable, text);
    case 403: return Error(Code::kUrlInvalid, text + ": the signed URL has expired or is not accepted");
    case 404: return Error(Code::kObjectNotFound, text);
    case 412: return Error(Code::kObjectExists, text);
    case 416: return Error(Code::kDataCorrupt, text + ": the object is shorter than it should be");
    case 429: return Error(Code::kRateLimited, text);
    case 507: return Error(Code::kNoSpaceLeft, text);
    default: break;
  }
  // S3 calls a body that came too slowly a bad request.
  bool slow = response.status == 400 && response.body.find("<Code>RequestTimeout</Code>") != std::string::npos;
  if (slow || response.status >= 500) return Error(Code::kStoreUnavailable, text);
  return Error(Code::kRequestInvalid, text + ", which is no answer of an object store",
               "check the store's endpoint in the server's configuration, and the proxies in between");
}

// The bytes of a PUT, telling how far they were taken.
class ReportingSource final : public net::BodySource {
 public:
  ReportingSource(std::span<const uint8_t> bytes, const std::function<void(uint64_t)>& sent) : bytes_(bytes), sent_(sent) {}
  uint64_t size() const override { return bytes_.size(); }
  Result<size_t> read(std::span<uint8_t> out) override {
    size_t count = std::min(out.size(), bytes_.size() - at_);
    if (count > 0) std::memcpy(out.data(), bytes_.data() + at_, count);
    at_ += count;
    if (at_ > reported_) {
      sent_(at_ - reported_);
      reported_ = at_;
    }
    return count;
  }
  Status rewind() override {
    at_ = 0;
    return ok();
  }

 private:
  std::span<const uint8_t> bytes_;
  const std::function<void(uint64_t)>& sent_;
  size_t at_ = 0;
  size_t reported_ = 0;  // bytes sent a second time are not progress
};

}  // namespace

Status ApiClient::get_object(const std::string& url, uint64_t offset, std::span<uint8_t> out, const Deadline& deadline) {
  if (out.empty()) return ok();
  net::HttpRequest request;
  request.url = absolute_url(url);
  request.range = net::ByteRange{offset, out.size()};
  request.response_bytes_max = out.size();
  size_t filled = 0;
  request.sink = [&](std::span<const uint8_t> piece) -> Status {
    if (piece.size() > out.size() - filled) {
      return Error(Code::kDataCorrupt, shown(request.url) + " sent more bytes than were asked for");
    }
    std::memcpy(out.data() + filled, piece.data(), piece.size());
    filled += piece.size();
    return ok();
  };
  CAIRN_TRY(net::HttpResponse response, transport_.round_trip(request, deadline));
  if (response.status < 200 || response.status > 299) return object_error(request.url, response);
  if (filled != out.size()) {
    return Error(Code::kDataCorrupt, shown(request.url) + " sent " + std::to_string(filled) + " of " +
                                         std::to_string(out.size()) + " bytes from offset " + std::to_string(offset));
  }
  return ok();
}

Status ApiClient::put_object(const std::string& url, std::span<const uint8_t> bytes, const Deadline& deadline,
                             const std::function<void(uint64_t)>& sent) {
  net::HttpRequest request;
  request.method = "PUT";
  request.url = absolute_url(url);
  request.headers = {{"If-None-Match", "*"}, {"Content-Type", "application/octet-stream"}};
  ReportingSource source(bytes, sent);
  if (sent) {
    request.source = &source;
  } else {
    request.body = bytes;
  }
  request.mutation = true;
  // The store answers once the bytes are durable, which may take a while on a busy disk.
  request.stall_timeout = std::chrono::seconds(60);
  CAIRN_TRY(net::HttpResponse response, transport_.round_trip(request, deadline));
  if (response.status < 200 || response.status > 299) return object_error(request.url, response);
  return ok();
}

}  // namespace cairn::client
