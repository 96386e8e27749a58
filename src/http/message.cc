#include "http/message.h"

#include <algorithm>

#include <unistd.h>

#include "base/check.h"

namespace cairn::http {
namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// Closes with its last copy.
struct OwnedDescriptor {
  explicit OwnedDescriptor(int descriptor) : fd(descriptor) {}
  OwnedDescriptor(const OwnedDescriptor&) = delete;
  OwnedDescriptor& operator=(const OwnedDescriptor&) = delete;
  ~OwnedDescriptor() { ::close(fd); }
  const int fd;
};

Response with_type(int status, std::string body, std::string type) {
  Response response;
  response.status = status;
  response.headers.add("Content-Type", std::move(type));
  response.body = std::move(body);
  return response;
}

}  // namespace

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

void Headers::set(std::string_view name, std::string value) {
  std::erase_if(lines_, [&](const auto& line) { return equal_ignoring_case(line.first, name); });
  lines_.emplace_back(std::string(name), std::move(value));
}

std::optional<std::string_view> Headers::get(std::string_view name) const {
  for (const auto& [key, value] : lines_) {
    if (equal_ignoring_case(key, name)) return value;
  }
  return std::nullopt;
}

size_t Headers::count(std::string_view name) const {
  return static_cast<size_t>(std::count_if(lines_.begin(), lines_.end(),
                                           [&](const auto& line) { return equal_ignoring_case(line.first, name); }));
}

std::optional<std::string_view> RequestHead::query_value(std::string_view name) const {
  auto found = query.find(name);
  if (found == query.end()) return std::nullopt;
  return found->second;
}

FileBody FileBody::owning(int fd, uint64_t offset, uint64_t length) {
  return FileBody(fd, std::make_shared<OwnedDescriptor>(fd), offset, length);
}

FileBody FileBody::borrowing(int fd, std::shared_ptr<const void> owner, uint64_t offset, uint64_t length) {
  return FileBody(fd, std::move(owner), offset, length);
}

FileBody FileBody::slice(uint64_t offset, uint64_t length) const {
  CAIRN_CHECK(offset <= length_ && length <= length_ - offset);
  return FileBody(fd_, owner_, offset_ + offset, length);
}

Response Response::json(int status, std::string body) {
  return with_type(status, std::move(body), "application/json");
}

Response Response::text(int status, std::string body) {
  return with_type(status, std::move(body), "text/plain; charset=utf-8");
}

std::string_view reason_phrase(int status) {
  switch (status) {
    case 100: return "Continue";
    case 200: return "OK";
    case 201: return "Created";
    case 202: return "Accepted";
    case 204: return "No Content";
    case 206: return "Partial Content";
    case 304: return "Not Modified";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 410: return "Gone";
    case 411: return "Length Required";
    case 412: return "Precondition Failed";
    case 413: return "Content Too Large";
    case 416: return "Range Not Satisfiable";
    case 417: return "Expectation Failed";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 499: return "Client Closed Request";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 505: return "HTTP Version Not Supported";
    case 507: return "Insufficient Storage";
    default: return "Unknown";
  }
}

}  // namespace cairn::http
