// What a handler reads and answers: request head, request, response. Plain values that know no socket.
//
// A request that reaches a handler has been checked: the path is absolute, every segment and query value is decoded, no
// segment is "." or "..", none holds a NUL byte, and no query name stands twice. Its strings are still the user's:
// validate before use.
//
// Threads: value types. A FileBody shares its descriptor with its copies; the last one closes it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/deadline.h"

namespace cairn::http {

// Field lines in the order they came. Names compare without case.
class Headers {
 public:
  void add(std::string name, std::string value) { lines_.emplace_back(std::move(name), std::move(value)); }
  // Replaces every line of that name by one.
  void set(std::string_view name, std::string value);
  // The value of the first line of that name. The view lives as long as this object is unchanged.
  std::optional<std::string_view> get(std::string_view name) const;
  // How many lines have that name.
  size_t count(std::string_view name) const;
  const std::vector<std::pair<std::string, std::string>>& lines() const { return lines_; }

 private:
  std::vector<std::pair<std::string, std::string>> lines_;
};

// Equal but for the case of ASCII letters.
bool equal_ignoring_case(std::string_view a, std::string_view b);

struct RequestHead {
  std::string method;                     // "GET"
  std::string target;                     // as received: "/v1/a%20b?x=1"
  std::string raw_path;                   // target up to the '?', still escaped
  std::string raw_query;                  // after the '?', still escaped
  std::vector<std::string> segments;      // decoded: {"v1", "a b"}; "/" has none; a trailing '/' makes a last empty one
  std::vector<std::string> raw_segments;  // the same, still escaped
  std::map<std::string, std::string, std::less<>> query;
  Headers headers;
  std::string peer;  // "192.0.2.1:4711"
  uint64_t content_length = 0;

  // The query value, or nothing when the name is absent.
  std::optional<std::string_view> query_value(std::string_view name) const;
};

struct Request : RequestHead {
  std::string body;
  // Ends at the route's time limit, and is cancelled when the server stops (a long poll at once, others when the drain
  // time is over). Pass it down every blocking call.
  Deadline deadline = Deadline::never();
};

// Part of an open regular file that is sent as the body, without passing through memory where the connection allows it.
class FileBody {
 public:
  // Takes over `fd` and closes it.
  static FileBody owning(int fd, uint64_t offset, uint64_t length);
  // `owner` keeps `fd` open (for example a shared reader).
  static FileBody borrowing(int fd, std::shared_ptr<const void> owner, uint64_t offset, uint64_t length);

  int fd() const { return fd_; }
  uint64_t offset() const { return offset_; }
  uint64_t length() const { return length_; }
  // A part of this part. REQUIRES: offset + length <= this->length().
  FileBody slice(uint64_t offset, uint64_t length) const;

 private:
  FileBody(int fd, std::shared_ptr<const void> owner, uint64_t offset, uint64_t length)
      : fd_(fd), owner_(std::move(owner)), offset_(offset), length_(length) {}
  int fd_;
  std::shared_ptr<const void> owner_;
  uint64_t offset_;
  uint64_t length_;
};

// The session adds Content-Length, Date, Connection and, for ranges, Content-Range: handlers leave those out. The
// answer to HEAD is made as for GET; the session leaves the body out.
struct Response {
  int status = 200;
  Headers headers;
  std::string body;
  // Instead of `body`. A GET with a single "Range: bytes=a-b" is then answered with 206 or 416.
  std::optional<FileBody> file;
  // Answer ranges of `body` too.
  bool accept_ranges = false;

  static Response json(int status, std::string body);
  static Response text(int status, std::string body);
};

// The reason phrase, "Unknown" for numbers it does not know.
std::string_view reason_phrase(int status);

}  // namespace cairn::http
