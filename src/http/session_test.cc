// Sessions on memory: several requests on one connection, whatever pieces their bytes come in.
#include <gtest/gtest.h>

#include "http/memory_stream.h"
#include "http/test_server.h"

namespace cairn::http {
namespace {

// Without what differs from run to run.
std::string without_dates(std::string text) {
  for (size_t at; (at = text.find("Date: ")) != std::string::npos;) text.erase(at, text.find("\r\n", at) + 2 - at);
  return text;
}

class CountingSink final : public BodySink {
 public:
  Status write(std::span<const uint8_t> piece) override {
    bytes_ += piece.size();
    return ok();
  }
  Response finish() override { return Response::text(201, std::to_string(bytes_)); }

 private:
  uint64_t bytes_ = 0;
};

RoutePlan routes(const RequestHead& head) {
  if (head.raw_path == "/upload") {
    auto open = [](const Request&) { return Result<std::unique_ptr<BodySink>>(std::make_unique<CountingSink>()); };
    return RoutePlan::upload("upload", open, 1000);
  }
  if (head.raw_path == "/refuse") {
    auto open = [](const Request&) -> Result<std::unique_ptr<BodySink>> {
      return Error(Code::kObjectExists, "it is there");
    };
    return RoutePlan::upload("refuse", open, 1000);
  }
  if (head.raw_path == "/throw") {
    return RoutePlan::buffered("throw",
                               [](const Request&) -> Response { throw std::runtime_error("thrown for the test"); });
  }
  return echo(head);
}

TEST(Session, AnswersPipelinedRequestsInOrderWhateverThePieces) {
  FunctionHandler handler(routes);
  const std::string input =
      put("/a", 5) + "first" + get("/b") + put("/upload", 6) + "second" + put("/c", 0) + get("/d");
  const std::string whole = without_dates(answer_in_memory(handler, {input}));
  size_t first = whole.find("first");
  size_t path = whole.find("path /b");
  size_t count = whole.find("\r\n\r\n6");
  size_t last = whole.find("path /d");
  ASSERT_NE(last, std::string::npos) << whole;
  EXPECT_LT(first, path);
  EXPECT_LT(path, count);
  EXPECT_LT(count, last);
  for (size_t size : {1, 2, 3, 7, 64}) {
    std::deque<std::string> pieces;
    for (size_t at = 0; at < input.size(); at += size) pieces.push_back(input.substr(at, size));
    EXPECT_EQ(without_dates(answer_in_memory(handler, pieces)), whole) << size;
  }
}

TEST(Session, AnUnreadBodyIsNeverTakenForARequest) {
  FunctionHandler handler(routes);
  // /refuse does not read its body, which looks like a request.
  std::string smuggled = get("/secret");
  std::string output = answer_in_memory(handler, {put("/refuse", smuggled.size()) + smuggled});
  EXPECT_EQ(output.find("secret"), std::string::npos);
  EXPECT_NE(output.find("412 "), std::string::npos);
  EXPECT_NE(output.find("Connection: close"), std::string::npos);
}

TEST(Session, AThrowingHandlerIsA500AndTheConnectionGoesOn) {
  FunctionHandler handler(routes);
  std::string output = answer_in_memory(handler, {put("/throw", 2) + "hi" + get("/after")});
  EXPECT_NE(output.find("HTTP/1.1 500 "), std::string::npos);
  EXPECT_NE(output.find("path /after"), std::string::npos);
}

TEST(Session, ExpectContinueIsAnsweredOnceTheSinkIsOpen) {
  FunctionHandler handler(routes);
  std::string head = put("/upload", 3, "Expect: 100-continue\r\n");
  std::string output = answer_in_memory(handler, {head, "abc"});
  EXPECT_EQ(output.rfind("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 ", 0), 0u) << output;
  output = answer_in_memory(handler, {put("/refuse", 3, "Expect: 100-continue\r\n"), "abc"});
  EXPECT_EQ(output.rfind("HTTP/1.1 412 ", 0), 0u) << output;
}

TEST(Session, HeadHasTheLengthButNoBody) {
  FunctionHandler handler([](const RequestHead&) { return RoutePlan::answer("", Response::text(200, "12345")); });
  std::string output = answer_in_memory(handler, {"HEAD / HTTP/1.1\r\nHost: h\r\n\r\n"});
  EXPECT_NE(output.find("Content-Length: 5\r\n"), std::string::npos);
  EXPECT_EQ(output.substr(output.size() - 4), "\r\n\r\n");
}

TEST(Session, RangesOfTextWhenTheHandlerAllowsThem) {
  FunctionHandler handler([](const RequestHead& head) {
    Response response = Response::text(200, "0123456789");
    response.accept_ranges = head.raw_path == "/ranges";
    return RoutePlan::answer("", std::move(response));
  });
  std::string part = answer_in_memory(handler, {get("/ranges", "Range: bytes=2-4\r\n")});
  EXPECT_EQ(part.rfind("HTTP/1.1 206 ", 0), 0u);
  EXPECT_NE(part.find("Content-Range: bytes 2-4/10\r\n"), std::string::npos);
  EXPECT_EQ(part.substr(part.size() - 3), "234");
  EXPECT_EQ(answer_in_memory(handler, {get("/whole", "Range: bytes=2-4\r\n")}).rfind("HTTP/1.1 200 ", 0), 0u);
}

}  // namespace
}  // namespace cairn::http
