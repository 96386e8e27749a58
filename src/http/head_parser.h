// Parses the head of one request from bytes as they come, and refuses what Cairn does not speak: it is what stands
// between hostile bytes and every route. Boost.Beast's parser does the tokens; this adds the rules of RequestHead
// (message.h).
//
// Threads: one at a time. Internal to http.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "http/message.h"

namespace cairn::http {

struct Refusal {
  Refusal(int http_status, Error why) : status(http_status), error(std::move(why)) {}
  int status;
  Error error;
};

struct ParsedHead {
  RequestHead head;
  bool keep_alive = false;
  bool expects_continue = false;
  bool has_length = false;
};

class HeadParser {
 public:
  explicit HeadParser(uint32_t header_bytes_max);
  ~HeadParser();

  // How many bytes were used up; the others must be offered again, with more behind them, unless the head is complete.
  size_t feed(std::string_view bytes);
  bool complete() const;
  // Set when the head can never become one that is served.
  const std::optional<Refusal>& refusal() const { return refusal_; }
  // REQUIRES: complete() and no refusal. Sets refusal() when the head is well-formed but not acceptable.
  ParsedHead take();

 private:
  struct Impl;
  void refuse(int status, std::string message);
  bool take_target(std::string_view target, RequestHead& head);

  std::unique_ptr<Impl> impl_;
  std::optional<Refusal> refusal_;
};

// Splits and decodes an origin-form target into `head`; the reason when it is not acceptable.
std::optional<std::string> parse_target(std::string_view target, RequestHead& head);

}  // namespace cairn::http
