// Turns a Response into what goes over the wire: the head as text, and which part of the body follows.
//
// Pure functions. Internal to http.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "http/message.h"

namespace cairn::http {

struct ByteSpan {
  uint64_t offset = 0;
  uint64_t length = 0;
};

enum class RangeAnswer { kWhole, kPart, kUnsatisfiable };

// What "Range: <header>" asks of a body of `size` bytes. Several ranges, other units and malformed ones ask for the
// whole.
RangeAnswer resolve_range(std::string_view header, uint64_t size, ByteSpan& part);

// Applies a GET's Range to a 200 answer that accepts ranges: status, Content-Range, and the part.
void apply_range(const RequestHead& request, Response& response);

// Status line and headers up to and with the empty line. Nothing when a header of the handler holds a line end.
std::optional<std::string> format_head(const Response& response, bool keep_alive);

uint64_t body_bytes(const Response& response);

}  // namespace cairn::http
