// One HTTP round trip, the client's side. A Transport sends a request and returns whatever status the server answered:
// an error status is not an Error here. It does not retry, does not follow redirects and knows no API.
//
// Failures, each naming host:port:
//   server_unavailable  not connected (nothing was sent), or broken off during a request that may simply be repeated
//   outcome_unknown     broken off or timed out after a request with `mutation` was sent: it may have been done
//   deadline_exceeded, cancelled   the caller's own deadline
//   limit_exceeded      the answer was larger than `response_bytes_max`
//   an Error of the request's own source or sink, as it was returned
// A request may reach the server twice (libcurl replaces a kept connection that turns out dead): what changes something
// carries a request id.
//
// Threads: round_trip may be called from any number of threads. Everything a request points to stays alive until it
// returns.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/limits.h"
#include "base/result.h"
#include "net/tls_settings.h"

namespace cairn::net {

using HeaderList = std::vector<std::pair<std::string, std::string>>;

// A request body that is made while it is sent.
class BodySource {
 public:
  virtual ~BodySource() = default;
  // Exactly this many bytes follow.
  virtual uint64_t size() const = 0;
  // Fills at most `out`; 0 only after the last byte.
  virtual Result<size_t> read(std::span<uint8_t> out) = 0;
  // Back to the first byte; called when a request must be sent again.
  virtual Status rewind() = 0;
};

struct ByteRange {
  uint64_t offset = 0;
  uint64_t length = 0;  // > 0
};

struct HttpRequest {
  std::string method = "GET";
  std::string url;  // http:// or https://, escaped
  HeaderList headers;
  std::span<const uint8_t> body;
  BodySource* source = nullptr;  // instead of `body`
  // Doing this twice would not be the same as once: see outcome_unknown above.
  bool mutation = false;
  // Asks for "Range: bytes=..." and accepts no answer but 206 with that offset, or an error status.
  std::optional<ByteRange> range;
  // Bodies of 2xx answers go there, in pieces and in order, instead of into HttpResponse::body. Other bodies never do.
  std::function<Status(std::span<const uint8_t>)> sink;
  uint64_t response_bytes_max = 64 * limits::kMiB;
  // Fewer than 1 KiB/s, in both directions together, for this long ends the call (some 6 s later, since the rate is an
  // average). It also runs while waiting for the answer: raise it, or set 0 for none, where the server may think
  // longer.
  std::chrono::seconds stall_timeout{20};
  // Wait for "100 Continue" before a body of more than 1 MiB is sent. Useful for S3, where a refusal then saves the
  // bytes.
  bool expect_continue = false;
};

struct HttpResponse {
  int status = 0;
  HeaderList headers;  // names in lower case
  std::string body;
  uint64_t body_bytes = 0;  // of the body, wherever it went
  std::optional<std::chrono::seconds> retry_after;

  // The first value of that name (lower case), or nothing.
  std::optional<std::string_view> header(std::string_view name) const;
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual Result<HttpResponse> round_trip(const HttpRequest& request, const Deadline& deadline) = 0;
};

struct CurlSettings {
  TlsSettings tls;
  size_t connections_max = 16;  // round trips at once; more wait for their turn
  std::chrono::seconds connect_timeout{10};
  std::string user_agent;  // empty: "cairn/VERSION"
};

// libcurl, HTTP/1.1, kept connections. Proxies come from the environment as for curl, but never for this machine
// itself.
class CurlTransport final : public Transport {
 public:
  explicit CurlTransport(CurlSettings settings = {});
  ~CurlTransport() override;
  Result<HttpResponse> round_trip(const HttpRequest& request, const Deadline& deadline) override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn::net
