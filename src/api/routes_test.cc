#include "api/routes.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>

#include "base/ids.h"

namespace cairn::api {
namespace {

TEST(Routes, EveryRouteIsFoundByItsOwnPath) {
  std::set<std::string> seen;
  for (const RouteSpec& spec : routes()) {
    EXPECT_TRUE(seen.insert(std::string(spec.method) + " " + std::string(spec.pattern)).second) << spec.pattern;
    std::string path;
    size_t parameters = 0;
    for (char c : spec.pattern) parameters += c == '{';
    if (parameters == 0) path = route_path(spec.route);
    if (parameters == 1) path = route_path(spec.route, {"a/b %"});
    if (parameters == 2) path = route_path(spec.route, {"a/b %", "7"});
    auto match = match_route(spec.method, path);
    ASSERT_TRUE(match) << path;
    EXPECT_EQ(match->route, spec.route) << path;
    ASSERT_EQ(match->parameters.size(), parameters);
    if (parameters > 0) {
      EXPECT_EQ(match->parameters[0], "a/b %");
    }
  }
}

// "GET /v1/pins/{pin}" and "GET /v1/pins/{id}" are the same address.
std::string without_names(std::string text) {
  for (size_t at = 0; (at = text.find('{', at)) != std::string::npos; ++at) {
    size_t end = text.find('}', at);
    if (end != std::string::npos) text.erase(at + 1, end - at - 1);
  }
  return text;
}

TEST(Routes, EveryRouteIsDocumented) {
  std::ifstream file(std::string(CAIRN_SOURCE_DIR) + "/docs/API.md");
  std::string page = without_names({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
  for (const RouteSpec& spec : routes()) {
    std::string address = without_names(std::string(spec.method) + " " + std::string(spec.pattern));
    bool found = page.find("`" + address + "`") != std::string::npos || page.find("`" + address + "?") != std::string::npos;
    EXPECT_TRUE(found) << address << " is not in docs/API.md";
    if (found && spec.mutation) {
      EXPECT_NE(page.find("● `" + address), std::string::npos) << address << " changes something: mark it";
    }
  }
}

TEST(Routes, OthersAreRefused) {
  EXPECT_EQ(match_route("GET", "/v1/nothing").error().code(), Code::kRouteNotFound);
  EXPECT_EQ(match_route("GET", "/v1/volumes/").error().code(), Code::kRouteNotFound);
  EXPECT_EQ(match_route("GET", "/v1/volumes/a/").error().code(), Code::kRouteNotFound);
  EXPECT_EQ(match_route("GET", "").error().code(), Code::kRouteNotFound);
  EXPECT_EQ(match_route("GET", "/v1/volumes/%zz").error().code(), Code::kRouteNotFound);
  EXPECT_EQ(match_route("PATCH", "/v1/volumes").error().code(), Code::kMethodNotAllowed);
}

TEST(Routes, QueryRoundTrips) {
  PinId pin = *PinId::from_hex("000102030405060708090a0b0c0d0e0f");
  QueryBuilder builder;
  builder.add("pin", pin.hex()).add_hex("path", std::string("a\xff\0b", 4)).add("limit", 17).add("purge", "true");
  ASSERT_TRUE(builder.str().starts_with("?pin="));
  auto query = Query::parse(std::string_view(builder.str()).substr(1));
  ASSERT_TRUE(query);
  EXPECT_EQ(*query->id<PinId>("pin"), pin);
  EXPECT_EQ(*query->hex("path"), std::string("a\xff\0b", 4));
  EXPECT_EQ(*query->number("limit", 1, 100), 17u);
  EXPECT_EQ(query->finish().error().message(), "query parameter 'purge' is not known here");
  EXPECT_TRUE(*query->flag("purge"));
  EXPECT_TRUE(query->finish());
  EXPECT_FALSE(*query->flag("absent"));
  EXPECT_EQ(*query->number("absent", 5, 100), 5u);
}

TEST(Routes, BadQueriesAreRefused) {
  EXPECT_FALSE(Query::parse("a=1&a=2"));
  EXPECT_FALSE(Query::parse("=1"));
  EXPECT_FALSE(Query::parse("a=%4"));
  auto query = Query::parse("n=12x&big=101&id=1&path=4&flag=maybe");
  ASSERT_TRUE(query);
  EXPECT_FALSE(query->number("n", 0, 100));
  EXPECT_FALSE(query->number("big", 0, 100));
  EXPECT_FALSE(query->id<PinId>("id"));
  EXPECT_FALSE(query->hex("path"));
  EXPECT_FALSE(query->flag("flag"));
}

TEST(Routes, CursorsRoundTrip) {
  for (const ListingCursor& cursor : {ListingCursor{"a/b", 0}, ListingCursor{"\xff", 64}}) {
    auto back = listing_cursor_from_text(to_text(cursor));
    ASSERT_TRUE(back);
    EXPECT_EQ(back->path, cursor.path);
    EXPECT_EQ(back->chunks, cursor.chunks);
  }
  for (const char* bad : {"", ":1", "6", "61:", "61:0", "61:x", "61:1x", "61:99999999999999999999999"}) {
    EXPECT_FALSE(listing_cursor_from_text(bad)) << bad;
  }
}

}  // namespace
}  // namespace cairn::api
