// URLs as Cairn uses them: taken apart, put together, escaped. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace cairn::net {

struct Url {
  std::string scheme;  // "http" or "https"
  std::string host;    // lower case; an IPv6 address without brackets
  uint16_t port = 0;   // the scheme's own when none is written
  std::string path;    // escaped, begins with '/'
  std::string query;   // escaped, without '?'

  // "host:port", brackets around IPv6: what messages name.
  std::string authority() const;
  // True for localhost, 127.x.x.x and ::1.
  bool is_loopback() const;
  std::string to_string() const;
};

// Refuses other schemes, user names, fragments, spaces and control characters. At most 8 KiB.
Result<Url> parse_url(std::string_view text);

// Everything but A-Z a-z 0-9 - . _ ~ as %XX: for one path segment or query value.
std::string escape(std::string_view text);
// The same, but keeps '/'.
std::string escape_path(std::string_view text);
// Undoes %XX. Refuses a broken escape. '+' stays '+'.
Result<std::string> unescape(std::string_view text);

// base + path + "?a=b&c=d". `base` may end in '/', `path` is escaped already and begins with '/'.
std::string make_url(std::string_view base, std::string_view path,
                     const std::vector<std::pair<std::string, std::string>>& query = {});

}  // namespace cairn::net
