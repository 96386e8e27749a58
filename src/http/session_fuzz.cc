// Bytes from anybody, fed to a session in pieces of a size that the first byte chooses. Whatever comes, the session
// ends, what it writes is a sequence of HTTP answers, and a handler sees only heads that keep the promises of
// message.h.
#include <cstdint>
#include <deque>
#include <string>

#include "base/check.h"
#include "http/memory_stream.h"

namespace cairn::http {
namespace {

class Sink final : public BodySink {
 public:
  explicit Sink(uint64_t expected) : expected_(expected) {}
  Status write(std::span<const uint8_t> piece) override {
    bytes_ += piece.size();
    CAIRN_CHECK(bytes_ <= expected_);
    if (bytes_ == 13) return Error(Code::kNoSpaceLeft, "thirteen");
    return ok();
  }
  Response finish() override {
    CAIRN_CHECK(bytes_ == expected_);
    return Response::text(201, "");
  }

 private:
  const uint64_t expected_;
  uint64_t bytes_ = 0;
};

class FuzzHandler final : public Handler {
 public:
  RoutePlan route(const RequestHead& head) override {
    CAIRN_CHECK(!head.raw_path.empty() && head.raw_path.front() == '/');
    CAIRN_CHECK(head.segments.size() == head.raw_segments.size());
    for (const std::string& segment : head.segments) {
      CAIRN_CHECK(segment != "." && segment != ".." && segment.find('\0') == std::string::npos);
    }
    CAIRN_CHECK(head.headers.count("Transfer-Encoding") == 0);
    if (head.method == "PUT") {
      auto open = [](const Request& request) -> Result<std::unique_ptr<BodySink>> {
        return std::make_unique<Sink>(request.content_length);
      };
      return RoutePlan::upload("put", open, 1 << 20);
    }
    auto call = [](const Request& request) {
      CAIRN_CHECK(request.body.size() == request.content_length);
      Response response = Response::text(200, request.body);
      response.accept_ranges = true;
      return response;
    };
    if (head.method == "POST") return RoutePlan::buffered("post", call, 4096);
    Response response = Response::text(200, head.target);
    response.accept_ranges = true;
    return RoutePlan::answer("get", std::move(response));
  }
};

}  // namespace
}  // namespace cairn::http

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cairn::http;
  if (size == 0 || size > 64 * 1024) return 0;
  size_t piece_size = data[0] == 0 ? size : data[0];
  std::deque<std::string> pieces;
  for (size_t at = 1; at < size; at += piece_size) {
    pieces.emplace_back(reinterpret_cast<const char*>(data) + at, std::min(piece_size, size - at));
  }
  FuzzHandler handler;
  std::string output = answer_in_memory(handler, std::move(pieces));
  CAIRN_CHECK(output.empty() || output.rfind("HTTP/1.1 ", 0) == 0);
  return 0;
}
