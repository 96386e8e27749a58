#include "api/routes.h"

#include <algorithm>

#include "base/check.h"
#include "base/limits.h"
#include "base/whole_number.h"
#include "codec/hex.h"

namespace cairn::api {
namespace {

constexpr RouteSpec kRoutes[] = {
#define CAIRN_ROUTE(name, method, pattern, mutation) {Route::name, method, pattern, mutation},
#include "api/routes.def"
#undef CAIRN_ROUTE
};

constexpr size_t kTargetBytesMax = 16 * 1024;

bool is_unreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' ||
         c == '~';
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Takes the next segment off `path`, which begins with '/'.
std::string_view take_segment(std::string_view& path) {
  path.remove_prefix(1);
  std::string_view segment = path.substr(0, path.find('/'));
  path.remove_prefix(segment.size());
  return segment;
}

// The decoded parameters, or nothing when the path does not have this shape.
std::optional<std::vector<std::string>> match_pattern(std::string_view pattern, std::string_view path) {
  std::vector<std::string> parameters;
  while (!pattern.empty() && !path.empty()) {
    std::string_view wanted = take_segment(pattern);
    std::string_view given = take_segment(path);
    if (!wanted.starts_with('{')) {
      if (wanted != given) return std::nullopt;
      continue;
    }
    auto value = percent_decode(given);
    if (!value || value->empty()) return std::nullopt;
    parameters.push_back(*std::move(value));
  }
  if (!pattern.empty() || !path.empty()) return std::nullopt;
  return parameters;
}

}  // namespace

std::span<const RouteSpec> routes() { return kRoutes; }

const RouteSpec& route_spec(Route route) { return kRoutes[static_cast<size_t>(route)]; }

std::string route_path(Route route, std::initializer_list<std::string_view> parameters) {
  std::string_view pattern = route_spec(route).pattern;
  std::string path;
  auto next = parameters.begin();
  while (!pattern.empty()) {
    std::string_view segment = take_segment(pattern);
    path += '/';
    if (segment.starts_with('{')) {
      CAIRN_CHECK(next != parameters.end());
      path += percent_encode(*next++);
    } else {
      path += segment;
    }
  }
  CAIRN_CHECK(next == parameters.end());
  return path;
}

Result<RouteMatch> match_route(std::string_view method, std::string_view path) {
  bool path_known = false;
  if (path.starts_with('/') && path.size() <= kTargetBytesMax) {
    for (const RouteSpec& spec : kRoutes) {
      auto parameters = match_pattern(spec.pattern, path);
      if (!parameters) continue;
      path_known = true;
      if (spec.method == method) return RouteMatch{spec.route, *std::move(parameters)};
    }
  }
  if (path_known) return Error(Code::kMethodNotAllowed, "this address does not take that method");
  return Error(Code::kRouteNotFound, "no such address", "docs/API.md lists the addresses");
}

std::string percent_encode(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string text;
  text.reserve(bytes.size());
  for (char c : bytes) {
    if (is_unreserved(c)) {
      text += c;
    } else {
      auto byte = static_cast<uint8_t>(c);
      text += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return text;
}

std::optional<std::string> percent_decode(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      bytes += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    int high = hex_digit(text[i + 1]);
    int low = hex_digit(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    bytes += static_cast<char>(high << 4 | low);
    i += 2;
  }
  return bytes;
}

QueryBuilder& QueryBuilder::add(std::string_view key, std::string_view value) {
  text_ += text_.empty() ? '?' : '&';
  text_ += percent_encode(key);
  text_ += '=';
  text_ += percent_encode(value);
  return *this;
}

QueryBuilder& QueryBuilder::add(std::string_view key, uint64_t value) { return add(key, std::to_string(value)); }

QueryBuilder& QueryBuilder::add_hex(std::string_view key, std::string_view bytes) {
  return add(key, codec::hex_encode(bytes));
}

Result<Query> Query::parse(std::string_view text) {
  Query query;
  if (text.size() > kTargetBytesMax) return Error(Code::kRequestInvalid, "the query is longer than 16 KiB");
  while (!text.empty()) {
    std::string_view pair = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(text.size(), pair.size() + 1));
    size_t equals = pair.find('=');
    auto key = percent_decode(pair.substr(0, equals));
    auto value = percent_decode(equals == std::string_view::npos ? std::string_view() : pair.substr(equals + 1));
    if (!key || !value || key->empty()) return Error(Code::kRequestInvalid, "the query is not of the form a=1&b=2");
    if (!query.values_.emplace(*key, *value).second) {
      return Error(Code::kRequestInvalid, "a query parameter is given twice");
    }
  }
  return query;
}

std::string Query::text(const std::string& key) {
  seen_[key] = true;
  auto found = values_.find(key);
  return found == values_.end() ? std::string() : found->second;
}

Result<uint64_t> Query::number(const std::string& key, uint64_t fallback, uint64_t max) {
  std::string value = text(key);
  if (value.empty()) return fallback;
  uint64_t number = 0;
  for (char c : value) {
    if (c < '0' || c > '9' || value.size() > 19) {
      return Error(Code::kRequestInvalid, "query parameter '" + key + "' is not a whole number from 0");
    }
    number = number * 10 + static_cast<uint64_t>(c - '0');
  }
  if (number > max) {
    return Error(Code::kRequestInvalid, "query parameter '" + key + "' is larger than " + std::to_string(max));
  }
  return number;
}

Result<bool> Query::flag(const std::string& key) {
  bool given = has(key);
  std::string value = text(key);
  if (!given || value == "false") return false;
  if (value.empty() || value == "true") return true;
  return Error(Code::kRequestInvalid, "query parameter '" + key + "' is neither true nor false");
}

Result<std::string> Query::hex(const std::string& key) {
  auto bytes = codec::hex_decode_text(text(key));
  if (!bytes) {
    return Error(Code::kRequestInvalid, "query parameter '" + key + "' is not an even number of lower-case hex digits");
  }
  return *std::move(bytes);
}

std::string to_text(const ListingCursor& cursor) {
  std::string text = codec::hex_encode(std::string_view(cursor.path));
  if (cursor.chunks != 0) text += ":" + std::to_string(cursor.chunks);
  return text;
}

std::optional<ListingCursor> listing_cursor_from_text(std::string_view text) {
  size_t colon = text.find(':');
  auto path = codec::hex_decode_text(text.substr(0, colon));
  if (!path || path->empty() || path->size() > limits::kPathBytesMax) return std::nullopt;
  ListingCursor cursor{*std::move(path), 0};
  if (colon == std::string_view::npos) return cursor;
  cursor.chunks = whole_number<decltype(cursor.chunks)>(text.substr(colon + 1)).value_or(0);
  if (cursor.chunks == 0) return std::nullopt;
  return cursor;
}

Status Query::finish() const {
  for (const auto& [key, value] : values_) {
    if (!seen_.contains(key)) return Error(Code::kRequestInvalid, "query parameter '" + key.substr(0, 64) + "' is not known here");
  }
  return ok();
}

}  // namespace cairn::api
