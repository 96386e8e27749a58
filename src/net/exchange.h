// The state of one round trip, free of any HTTP library: hands out the request's body, takes status, header lines and
// body of the answer, and holds both to the request's limits. The first error is kept and ends the call.
//
// Threads: one at a time. Internal to net.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "net/transport.h"

namespace cairn::net {

bool is_token(std::string_view text);        // a method or header name
bool is_field_value(std::string_view text);  // no line ends, no NUL
// Method, range and body make sense.
Status check_request(const HttpRequest& request);

class Exchange {
 public:
  // `request` and what it points to outlive this.
  Exchange(const HttpRequest& request, std::string where) : request_(request), where_(std::move(where)) {}

  // Nothing on an error.
  std::optional<size_t> read_body(std::span<uint8_t> out);
  bool seek_body(uint64_t offset);
  // With or without its line end. A status line starts over: interim answers (100) are forgotten.
  bool take_header_line(std::string_view line);
  bool take_body(std::span<const uint8_t> piece);

  const std::optional<Error>& error() const { return error_; }
  // The whole answer has come.
  Result<HttpResponse> finish();

 private:
  bool fail(Error error);
  bool check_head();

  const HttpRequest& request_;
  const std::string where_;
  HttpResponse response_;
  std::optional<Error> error_;
  uint64_t body_offset_ = 0;
  uint64_t header_bytes_ = 0;
  bool head_checked_ = false;
};

}  // namespace cairn::net
