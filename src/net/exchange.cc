#include "net/exchange.h"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace cairn::net {
namespace {

constexpr uint64_t kHeaderBytesMax = 256 * limits::kKiB;
constexpr uint64_t kErrorBodyBytesMin = 64 * limits::kKiB;

std::string_view trim(std::string_view text) {
  size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

bool is_success(int status) {
  return status >= 200 && status < 300;
}

}  // namespace

bool is_token(std::string_view text) {
  if (text.empty()) return false;
  for (char c : text) {
    bool alphanumeric = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!alphanumeric && (c == '\0' || std::strchr("!#$%&'*+-.^_`|~", c) == nullptr)) return false;
  }
  return true;
}

bool is_field_value(std::string_view text) {
  return text.find_first_of(std::string_view("\r\n\0", 3)) == std::string_view::npos;
}

Status check_request(const HttpRequest& request) {
  if (!is_token(request.method)) return Error(Code::kUsage, "a request's method is not a word");
  if (request.source != nullptr && !request.body.empty()) return Error(Code::kUsage, "a request has two bodies");
  if (request.range) {
    if (request.method != "GET") return Error(Code::kUsage, "only GET can ask for a range");
    if (request.range->length == 0) return Error(Code::kUsage, "a range of no bytes cannot be asked for");
    if (request.range->offset + request.range->length < request.range->offset) {
      return Error(Code::kUsage, "a range ends beyond 2^64");
    }
  }
  return ok();
}

std::optional<std::string_view> HttpResponse::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return std::nullopt;
}

bool Exchange::fail(Error error) {
  if (!error_) error_ = std::move(error);
  return false;
}

std::optional<size_t> Exchange::read_body(std::span<uint8_t> out) {
  if (error_) return std::nullopt;
  if (request_.source == nullptr) {
    size_t count = std::min<uint64_t>(out.size(), request_.body.size() - body_offset_);
    if (count > 0) std::memcpy(out.data(), request_.body.data() + body_offset_, count);
    body_offset_ += count;
    return count;
  }
  uint64_t left = request_.source->size() - body_offset_;
  size_t wanted = std::min<uint64_t>(out.size(), left);
  if (wanted == 0) return 0;
  Result<size_t> read = request_.source->read(out.first(wanted));
  if (!read) {
    fail(std::move(read).error());
    return std::nullopt;
  }
  if (*read == 0 || *read > wanted) {
    fail(Error(Code::kInternal,
               "the body of a request to " + where_ + " ended " + std::to_string(left) + " bytes early"));
    return std::nullopt;
  }
  body_offset_ += *read;
  return *read;
}

bool Exchange::seek_body(uint64_t offset) {
  if (request_.source == nullptr) {
    if (offset > request_.body.size()) return false;
    body_offset_ = offset;
    return true;
  }
  if (offset != 0) return false;
  if (Status rewound = request_.source->rewind(); !rewound) return fail(std::move(rewound).error());
  body_offset_ = 0;
  return true;
}

bool Exchange::take_header_line(std::string_view line) {
  header_bytes_ += line.size();
  if (header_bytes_ > kHeaderBytesMax) return fail(Error(Code::kLimitExceeded, where_ + " sent headers over 256 KiB"));
  if (line.rfind("HTTP/", 0) == 0) {
    response_.headers.clear();
    response_.status = 0;
    size_t space = line.find(' ');
    if (space != std::string_view::npos) {
      std::string_view code = line.substr(space + 1, 3);
      std::from_chars(code.data(), code.data() + code.size(), response_.status);
    }
    return true;
  }
  size_t colon = line.find(':');
  if (colon != std::string_view::npos && colon > 0) {
    response_.headers.emplace_back(lower(trim(line.substr(0, colon))), std::string(trim(line.substr(colon + 1))));
  }
  return true;
}

// A server that ignores a range would put other bytes where the asked ones belong.
bool Exchange::check_head() {
  if (head_checked_ || !request_.range || !is_success(response_.status)) return true;
  head_checked_ = true;
  std::string expected = "bytes " + std::to_string(request_.range->offset) + "-";
  std::string_view got = response_.header("content-range").value_or("");
  if (response_.status == 206 && got.rfind(expected, 0) == 0) return true;
  return fail(Error(Code::kServerUnavailable, where_ + " did not answer with the bytes asked for: status " +
                                                  std::to_string(response_.status) + ", wanted " + expected + "…"));
}

bool Exchange::take_body(std::span<const uint8_t> piece) {
  if (error_ || !check_head()) return false;
  bool success = is_success(response_.status);
  uint64_t bytes_max = request_.response_bytes_max;
  if (success && request_.range) bytes_max = std::min(bytes_max, request_.range->length);
  // A refusal is read even by those who want few bytes.
  if (!success) bytes_max = std::max(bytes_max, kErrorBodyBytesMin);
  if (piece.size() > bytes_max - std::min(bytes_max, response_.body_bytes)) {
    return fail(Error(Code::kLimitExceeded, "the answer of " + where_ + " is larger than the " +
                                                std::to_string(bytes_max) + " bytes allowed for it"));
  }
  response_.body_bytes += piece.size();
  if (success && request_.sink) {
    if (Status taken = request_.sink(piece); !taken) return fail(std::move(taken).error());
    return true;
  }
  response_.body.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  return true;
}

Result<HttpResponse> Exchange::finish() {
  check_head();
  if (error_) return *error_;
  return std::move(response_);
}

}  // namespace cairn::net
