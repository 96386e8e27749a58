// Heads of requests and answers as text: what is taken apart how, what is refused with which status, which part of a
// body a Range asks for.
#include <gtest/gtest.h>

#include "http/handler.h"
#include "http/head_parser.h"
#include "http/response_head.h"

namespace cairn::http {
namespace {

std::optional<ParsedHead> parse(std::string text, int* status = nullptr) {
  HeadParser parser(16 * 1024);
  while (!text.empty() && !parser.complete() && !parser.refusal()) {
    size_t used = parser.feed(text);
    if (used == 0) break;
    text.erase(0, used);
  }
  std::optional<ParsedHead> parsed;
  if (parser.complete() && !parser.refusal()) parsed = parser.take();
  if (status != nullptr) *status = parser.refusal() ? parser.refusal()->status : 0;
  if (parser.refusal()) parsed.reset();
  return parsed;
}

int refusal_of(const std::string& text) {
  int status = -1;
  EXPECT_FALSE(parse(text, &status)) << text;
  return status;
}

TEST(HeadParser, DecodesPathAndQuery) {
  auto parsed = parse("GET /v1/vol%20umes/a%2Fb/?x=1&path=%00ff+y HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_FALSE(parsed);  // the NUL byte
  parsed =
      parse("GET /v1/vol%20umes/a%2Fb/?x=1&p=a+b%2B&empty= HTTP/1.1\r\nHoSt: h\r\nAuthorization:  Bearer t \r\n\r\n");
  ASSERT_TRUE(parsed);
  const RequestHead& head = parsed->head;
  EXPECT_EQ(head.method, "GET");
  EXPECT_EQ(head.segments, (std::vector<std::string>{"v1", "vol umes", "a/b", ""}));
  EXPECT_EQ(head.raw_segments, (std::vector<std::string>{"v1", "vol%20umes", "a%2Fb", ""}));
  EXPECT_EQ(head.query_value("x"), "1");
  EXPECT_EQ(head.query_value("p"), "a b+");
  EXPECT_EQ(head.query_value("empty"), "");
  EXPECT_EQ(head.query_value("absent"), std::nullopt);
  EXPECT_EQ(head.headers.get("authorization"), "Bearer t");
  EXPECT_EQ(head.raw_path, "/v1/vol%20umes/a%2Fb/");
  EXPECT_TRUE(parsed->keep_alive);
  EXPECT_FALSE(parsed->has_length);
}

TEST(HeadParser, TakesBytesOneByOne) {
  std::string text = "PUT /x HTTP/1.1\r\nHost: h\r\nContent-Length: 12\r\nExpect: 100-continue\r\n\r\nbody";
  HeadParser parser(16 * 1024);
  std::string held;
  size_t fed = 0;
  while (!parser.complete() && fed < text.size()) {
    held.push_back(text[fed++]);
    held.erase(0, parser.feed(held));
    ASSERT_FALSE(parser.refusal());
  }
  ASSERT_TRUE(parser.complete());
  EXPECT_EQ(text.substr(fed), "body");
  ParsedHead parsed = parser.take();
  EXPECT_EQ(parsed.head.content_length, 12u);
  EXPECT_TRUE(parsed.has_length);
  EXPECT_TRUE(parsed.expects_continue);
}

TEST(HeadParser, KeepsTheConnectionAsAskedFor) {
  EXPECT_FALSE(parse("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")->keep_alive);
  EXPECT_FALSE(parse("GET / HTTP/1.0\r\n\r\n")->keep_alive);
  EXPECT_TRUE(parse("GET / HTTP/1.0\r\n\r\n")->head.segments.empty());
}

TEST(HeadParser, TakesAbsoluteTargets) {
  EXPECT_EQ(parse("GET http://h:1/a?b=c HTTP/1.1\r\nHost: h\r\n\r\n")->head.raw_path, "/a");
  EXPECT_EQ(parse("GET http://h HTTP/1.1\r\nHost: h\r\n\r\n")->head.raw_path, "/");
}

TEST(HeadParser, RefusesWhatIsNotServed) {
  const std::string host = "Host: h\r\n";
  EXPECT_EQ(refusal_of("hello\r\n\r\n"), 400);
  EXPECT_EQ(refusal_of("GET / HTTP/2.0\r\n" + host + "\r\n"), 505);
  EXPECT_EQ(refusal_of("GET / HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(refusal_of("GET / HTTP/1.1\r\n" + host + host + "\r\n"), 400);
  EXPECT_EQ(refusal_of("GET /%zz HTTP/1.1\r\n" + host + "\r\n"), 400);
  EXPECT_EQ(refusal_of("GET /%4 HTTP/1.1\r\n" + host + "\r\n"), 400);
  EXPECT_EQ(refusal_of("GET /a/%2e%2e/b HTTP/1.1\r\n" + host + "\r\n"), 400);
  EXPECT_EQ(refusal_of("GET /a/./b HTTP/1.1\r\n" + host + "\r\n"), 400);
  EXPECT_EQ(refusal_of("GET /?a=1&a=2 HTTP/1.1\r\n" + host + "\r\n"), 400);
  EXPECT_EQ(refusal_of("OPTIONS * HTTP/1.1\r\n" + host + "\r\n"), 400);
  EXPECT_EQ(refusal_of("CONNECT h:1 HTTP/1.1\r\n" + host + "\r\n"), 400);
  EXPECT_EQ(refusal_of("PUT / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n"), 411);
  EXPECT_EQ(refusal_of("PUT / HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip\r\n\r\n"), 411);
  EXPECT_EQ(refusal_of("PUT / HTTP/1.1\r\n" + host + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n"), 400);
  EXPECT_EQ(refusal_of("PUT / HTTP/1.1\r\n" + host + "Content-Length: -1\r\n\r\n"), 400);
  EXPECT_EQ(refusal_of("PUT / HTTP/1.1\r\n" + host + "Content-Length: 99999999999999999999\r\n\r\n"), 400);
  EXPECT_EQ(refusal_of("PUT / HTTP/1.1\r\n" + host + "Expect: magic\r\n\r\n"), 417);
  EXPECT_EQ(refusal_of("GET / HTTP/1.1\r\n" + host + "X: " + std::string(20'000, 'x') + "\r\n\r\n"), 431);
}

// A body told in two ways is how requests are smuggled past a proxy.
TEST(HeadParser, RefusesALengthBesideChunks) {
  int status = refusal_of("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n");
  EXPECT_TRUE(status == 400 || status == 411) << status;
  status = refusal_of("PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n");
  EXPECT_TRUE(status == 400 || status == 411) << status;
}

TEST(Range, ResolvesSingleRanges) {
  ByteSpan part;
  EXPECT_EQ(resolve_range("bytes=2-4", 10, part), RangeAnswer::kPart);
  EXPECT_EQ(part.offset, 2u);
  EXPECT_EQ(part.length, 3u);
  EXPECT_EQ(resolve_range("bytes=7-", 10, part), RangeAnswer::kPart);
  EXPECT_EQ(part.length, 3u);
  EXPECT_EQ(resolve_range("bytes=-4", 10, part), RangeAnswer::kPart);
  EXPECT_EQ(part.offset, 6u);
  EXPECT_EQ(resolve_range("bytes=-40", 10, part), RangeAnswer::kPart);
  EXPECT_EQ(part.length, 10u);
  EXPECT_EQ(resolve_range("bytes=0-18446744073709551615", 10, part), RangeAnswer::kPart);
  EXPECT_EQ(part.length, 10u);
  EXPECT_EQ(resolve_range("bytes=10-", 10, part), RangeAnswer::kUnsatisfiable);
  EXPECT_EQ(resolve_range("bytes=0-", 0, part), RangeAnswer::kUnsatisfiable);
  EXPECT_EQ(resolve_range("bytes=-0", 10, part), RangeAnswer::kUnsatisfiable);
}

TEST(Range, IgnoresWhatItDoesNotServe) {
  ByteSpan part;
  for (const char* header : {"bytes=0-1,3-4", "items=0-1", "bytes=4-2", "bytes=", "bytes=-", "bytes=a-b", "bytes=1",
                             "bytes= 0-1", "bytes=99999999999999999999-"}) {
    EXPECT_EQ(resolve_range(header, 10, part), RangeAnswer::kWhole) << header;
  }
}

TEST(ResponseHead, RefusesLineEndsInHeaders) {
  Response response = Response::text(200, "x");
  EXPECT_TRUE(format_head(response, true));
  response.headers.add("X", "a\r\nSet-Cookie: b");
  EXPECT_FALSE(format_head(response, true));
}

TEST(ResponseHead, KeepsSessionHeadersToItself) {
  Response response = Response::text(204, "");
  response.headers.add("content-length", "7");
  std::string head = *format_head(response, false);
  EXPECT_EQ(head.find("ontent-"), head.find("ontent-Type"));
  EXPECT_NE(head.find("Connection: close\r\n"), std::string::npos);
}

TEST(ErrorResponse, IsJson) {
  struct Plain final : Handler {
    RoutePlan route(const RequestHead&) override { return RoutePlan::answer("", Response()); }
  } handler;
  Response response = handler.error_response(409, Error(Code::kVolumeExists, "a \"b\"\n", "hint").with_holder("me"));
  EXPECT_EQ(response.body,
            "{\"error\":{\"code\":\"volume_exists\",\"message\":\"a "
            "\\\"b\\\"\\u000a\",\"hint\":\"hint\",\"holder\":\"me\"}}\n");
}

}  // namespace
}  // namespace cairn::http
