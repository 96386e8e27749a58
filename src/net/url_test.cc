// URLs: what is taken apart how, what is refused, and that escaping is undone exactly.
#include <gtest/gtest.h>

#include "base/random.h"
#include "net/url.h"

namespace cairn::net {
namespace {

TEST(Url, TakesApart) {
  auto url = parse_url("https://Example.org:8443/a%20b/c?x=1&y=%2F");
  ASSERT_TRUE(url);
  EXPECT_EQ(url->scheme, "https");
  EXPECT_EQ(url->host, "example.org");
  EXPECT_EQ(url->port, 8443);
  EXPECT_EQ(url->path, "/a%20b/c");
  EXPECT_EQ(url->query, "x=1&y=%2F");
  EXPECT_EQ(url->authority(), "example.org:8443");
  EXPECT_EQ(url->to_string(), "https://example.org:8443/a%20b/c?x=1&y=%2F");
}

TEST(Url, FillsInWhatIsNotWritten) {
  EXPECT_EQ(parse_url("http://h")->port, 80);
  EXPECT_EQ(parse_url("HTTPS://h")->port, 443);
  EXPECT_EQ(parse_url("http://h")->path, "/");
  EXPECT_EQ(parse_url("http://h?a=b")->path, "/");
  EXPECT_EQ(parse_url("http://h?a=b")->query, "a=b");
}

TEST(Url, KnowsAddresses) {
  auto url = parse_url("http://[::1]:9000/x");
  ASSERT_TRUE(url);
  EXPECT_EQ(url->host, "::1");
  EXPECT_EQ(url->authority(), "[::1]:9000");
  EXPECT_TRUE(url->is_loopback());
  EXPECT_TRUE(parse_url("http://localhost")->is_loopback());
  EXPECT_TRUE(parse_url("http://127.1.2.3")->is_loopback());
  EXPECT_FALSE(parse_url("http://127.example.org")->is_loopback());
  EXPECT_FALSE(parse_url("http://10.0.0.1")->is_loopback());
}

TEST(Url, RefusesTheRest) {
  for (const char* text : {"",
                           "h",
                           "//h/",
                           "ftp://h/",
                           "file:///etc/passwd",
                           "http://",
                           "http:///x",
                           "http://:80/",
                           "http://h:0/",
                           "http://h:65536/",
                           "http://h:8x/",
                           "http://h:/",
                           "http://user:secret@h/",
                           "http://h/#f",
                           "http://h/a b",
                           "http://h/\r\nX: y",
                           "http://[::1/",
                           "http://[host]/",
                           "http://[::1]x/",
                           "http://h\xc3\xa9/",
                           "http://a b/"}) {
    EXPECT_FALSE(parse_url(text)) << text;
  }
  EXPECT_FALSE(parse_url("http://h/" + std::string(9000, 'x')));
}

TEST(Url, MessagesKeepSignaturesOut) {
  std::string message = parse_url("htp://h/x?signature=secret").error().message();
  EXPECT_EQ(message.find("secret"), std::string::npos);
}

TEST(Escape, IsUndoneExactly) {
  SeededRandom random(3);
  for (int round = 0; round < 200; ++round) {
    std::string text;
    for (uint64_t i = random.below(40); i > 0; --i) text.push_back(static_cast<char>(random.below(256)));
    EXPECT_EQ(*unescape(escape(text)), text);
    EXPECT_EQ(*unescape(escape_path(text)), text);
  }
  EXPECT_EQ(escape("a/b c+d~é"), "a%2Fb%20c%2Bd~%C3%A9");
  EXPECT_EQ(escape_path("a/b c"), "a/b%20c");
  EXPECT_EQ(*unescape("a+b"), "a+b");
  EXPECT_FALSE(unescape("%"));
  EXPECT_FALSE(unescape("%4"));
  EXPECT_FALSE(unescape("%zz"));
}

TEST(MakeUrl, PutsTogether) {
  EXPECT_EQ(make_url("http://h:1/", "/v1/x"), "http://h:1/v1/x");
  EXPECT_EQ(make_url("http://h:1", "/v1/x", {{"a b", "c&d"}, {"e", ""}}), "http://h:1/v1/x?a%20b=c%26d&e=");
}

}  // namespace
}  // namespace cairn::net
