#include "http/response_head.h"

#include <algorithm>
#include <ctime>

#include "base/whole_number.h"

namespace cairn::http {
namespace {

// "Sun, 06 Nov 1994 08:49:37 GMT", made once a second a thread.
const std::string& http_date() {
  thread_local std::time_t made_at = -1;
  thread_local std::string text;
  std::time_t now = std::time(nullptr);
  if (now != made_at) {
    std::tm parts{};
    gmtime_r(&now, &parts);
    char buffer[40];
    size_t length = std::strftime(buffer, sizeof buffer, "%a, %d %b %Y %H:%M:%S GMT", &parts);
    text.assign(buffer, length);
    made_at = now;
  }
  return text;
}

// Written by the session, whatever a handler says.
bool is_session_header(std::string_view name) {
  for (std::string_view own : {"Content-Length", "Connection", "Date", "Transfer-Encoding"}) {
    if (equal_ignoring_case(name, own)) return true;
  }
  return false;
}

bool has_line_end(std::string_view text) {
  return text.find_first_of(std::string_view("\r\n\0", 3)) != std::string_view::npos;
}

}  // namespace

uint64_t body_bytes(const Response& response) {
  return response.file ? response.file->length() : response.body.size();
}

RangeAnswer resolve_range(std::string_view header, uint64_t size, ByteSpan& part) {
  constexpr std::string_view kUnit = "bytes=";
  if (header.substr(0, kUnit.size()) != kUnit) return RangeAnswer::kWhole;
  header.remove_prefix(kUnit.size());
  size_t dash = header.find('-');
  if (dash == std::string_view::npos || header.find(',') != std::string_view::npos) return RangeAnswer::kWhole;
  std::string_view first_text = header.substr(0, dash);
  std::string_view last_text = header.substr(dash + 1);
  std::optional<uint64_t> first = whole_number<uint64_t>(first_text), last = whole_number<uint64_t>(last_text);
  if (first_text.empty()) {  // the last N bytes
    if (!last) return RangeAnswer::kWhole;
    if (*last == 0 || size == 0) return RangeAnswer::kUnsatisfiable;
    part.length = std::min(*last, size);
    part.offset = size - part.length;
    return RangeAnswer::kPart;
  }
  if (last_text.empty()) last = UINT64_MAX;
  if (!first || !last || *last < *first) return RangeAnswer::kWhole;
  if (*first >= size) return RangeAnswer::kUnsatisfiable;
  part.offset = *first;
  part.length = std::min(*last, size - 1) - *first + 1;
  return RangeAnswer::kPart;
}

void apply_range(const RequestHead& request, Response& response) {
  if (response.status != 200 || (!response.file && !response.accept_ranges)) return;
  response.headers.set("Accept-Ranges", "bytes");
  auto range = request.headers.get("Range");
  // If-Range needs validators, which answers here do not carry: then the whole is right.
  if (!range || request.method != "GET" || request.headers.count("Range") > 1 || request.headers.get("If-Range"))
    return;
  uint64_t size = body_bytes(response);
  ByteSpan part;
  switch (resolve_range(*range, size, part)) {
    case RangeAnswer::kWhole: return;
    case RangeAnswer::kUnsatisfiable:
      response.status = 416;
      response.headers.set("Content-Range", "bytes */" + std::to_string(size));
      response.file.reset();
      response.body.clear();
      return;
    case RangeAnswer::kPart: break;
  }
  response.status = 206;
  response.headers.set("Content-Range", "bytes " + std::to_string(part.offset) + "-" +
                                            std::to_string(part.offset + part.length - 1) + "/" + std::to_string(size));
  if (response.file) {
    response.file = response.file->slice(part.offset, part.length);
  } else {
    response.body = response.body.substr(part.offset, part.length);
  }
}

std::optional<std::string> format_head(const Response& response, bool keep_alive) {
  std::string head = "HTTP/1.1 " + std::to_string(response.status) + " ";
  head += reason_phrase(response.status);
  head += "\r\nDate: " + http_date() + "\r\n";
  for (const auto& [name, value] : response.headers.lines()) {
    if (name.empty() || has_line_end(name) || has_line_end(value)) return std::nullopt;
    if (!is_session_header(name)) head += name + ": " + value + "\r\n";
  }
  if (response.status != 204 && response.status != 304) {
    head += "Content-Length: " + std::to_string(body_bytes(response)) + "\r\n";
  }
  if (!keep_alive) head += "Connection: close\r\n";
  return head + "\r\n";
}

}  // namespace cairn::http
