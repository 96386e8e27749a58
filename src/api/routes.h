// The route table: one row per route, used by the server to find a handler and by the client to build a target, so that the
// two cannot disagree. Also percent-encoding and query strings.
//
// Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/volumes.h"
#include "base/result.h"

namespace cairn::api {

enum class Route {
#define CAIRN_ROUTE(name, method, pattern, mutation) name,
#include "api/routes.def"
#undef CAIRN_ROUTE
};

struct RouteSpec {
  Route route;
  std::string_view method;
  std::string_view pattern;  // "/v1/volumes/{name}/pins"
  bool mutation;             // carries a request id and may be retried with it
};

std::span<const RouteSpec> routes();
const RouteSpec& route_spec(Route route);

// The path with its parameters filled in, each percent-encoded. REQUIRES: as many values as the pattern has parameters.
std::string route_path(Route route, std::initializer_list<std::string_view> parameters = {});

struct RouteMatch {
  Route route;
  std::vector<std::string> parameters;  // decoded, in the order of the pattern
};

// route_not_found, or method_not_allowed when only the method is wrong. `path` is without the query.
Result<RouteMatch> match_route(std::string_view method, std::string_view path);

std::string percent_encode(std::string_view bytes);
// Nothing for a broken escape. '+' stays '+'.
std::optional<std::string> percent_decode(std::string_view text);

// A query string being built: "?a=1&b=2", or "" when nothing was added.
class QueryBuilder {
 public:
  QueryBuilder& add(std::string_view key, std::string_view value);
  QueryBuilder& add(std::string_view key, uint64_t value);
  // As hex, for paths.
  QueryBuilder& add_hex(std::string_view key, std::string_view bytes);
  const std::string& str() const { return text_; }

 private:
  std::string text_;
};

// A received query string. Reading a key marks it as known; `finish` refuses the others, so that a mistyped parameter is an
// error and never silently ignored.
class Query {
 public:
  static Result<Query> parse(std::string_view text);

  bool has(const std::string& key) const { return values_.contains(key); }
  std::string text(const std::string& key);
  Result<uint64_t> number(const std::string& key, uint64_t fallback, uint64_t max);
  Result<bool> flag(const std::string& key);
  // Bytes from hex; `fallback` empty.
  Result<std::string> hex(const std::string& key);
  template <class IdType>
  Result<IdType> id(const std::string& key);
  Status finish() const;

 private:
  std::map<std::string, std::string> values_;
  std::map<std::string, bool> seen_;
};

template <class IdType>
Result<IdType> Query::id(const std::string& key) {
  std::string value = text(key);
  if (value.empty()) return IdType();
  auto id = IdType::from_hex(value);
  if (!id) return Error(Code::kRequestInvalid, "query parameter '" + key + "' is not an id of 32 hex digits");
  return *id;
}

// The cursor of a listing in the header Cairn-Next: "<hex of the path>" or "<hex of the path>:<chunks>".
std::string to_text(const ListingCursor& cursor);
std::optional<ListingCursor> listing_cursor_from_text(std::string_view text);

// Names of headers.
inline constexpr std::string_view kRequestIdHeader = "Cairn-Request-Id";
inline constexpr std::string_view kTeamHeader = "Cairn-Team";
inline constexpr std::string_view kNextHeader = "Cairn-Next";

}  // namespace cairn::api
