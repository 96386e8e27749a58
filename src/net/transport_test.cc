// CurlTransport against a server of raw sockets that says exactly what it is told: what is sent, what comes back, and
// which failure is called what.
#include <fcntl.h>

#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "net/scripted_server.h"
#include "net/transport.h"

namespace cairn::net {
namespace {

using SteadyClock = std::chrono::steady_clock;

double seconds_since(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

std::span<const uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

HttpRequest request_to(std::string url, std::string method = "GET") {
  HttpRequest request;
  request.url = std::move(url);
  request.method = std::move(method);
  return request;
}

Deadline soon() {
  return Deadline::after(seconds(20));
}

TEST(Transport, SendsWhatItIsToldAndReadsTheAnswer) {
  SharedText sent_head;
  SharedText sent_body;
  ScriptedServer server([&](Peer& peer) {
    sent_head.set(peer.read_head());
    sent_body.set(peer.read_body(5));
    peer.answer(201, "made", "X-Thing: a b \r\nRetry-After: 7\r\n");
  });
  CurlTransport transport;
  HttpRequest request = request_to(server.url("/v1/x%20y?a=%2F"), "POST");
  request.headers = {{"Authorization", "Bearer t"}, {"Content-Type", "application/json"}, {"X-Empty", ""}};
  std::string payload = "hello";
  request.body = bytes_of(payload);
  auto response = transport.round_trip(request, soon());
  ASSERT_TRUE(response) << response.error().to_string();
  EXPECT_EQ(response->status, 201);
  EXPECT_EQ(response->body, "made");
  EXPECT_EQ(response->header("x-thing"), "a b");
  EXPECT_EQ(response->retry_after, std::chrono::seconds(7));
  EXPECT_EQ(sent_body.get(), "hello");
  std::string head = sent_head.get();
  EXPECT_EQ(head.rfind("POST /v1/x%20y?a=%2F HTTP/1.1\r\n", 0), 0u) << head;
  for (const char* line : {"Authorization: Bearer t\r\n", "Content-Length: 5\r\n", "X-Empty:", "User-Agent: cairn/"}) {
    EXPECT_NE(head.find(line), std::string::npos) << line;
  }
  EXPECT_EQ(head.find("Expect"), std::string::npos);
}

TEST(Transport, KeepsConnections) {
  ScriptedServer server([](Peer& peer) {
    for (std::string head; !(head = peer.read_head()).empty();) peer.answer(200, head.substr(0, head.find(' ')));
  });
  CurlTransport transport;
  for (const char* method : {"GET", "DELETE", "POST", "PUT", "PATCH", "GET"}) {
    auto response = transport.round_trip(request_to(server.url(), method), soon());
    ASSERT_TRUE(response) << response.error().to_string();
    EXPECT_EQ(response->body, method);
  }
  EXPECT_EQ(server.accepted(), 1);
}

TEST(Transport, HeadHasNoBody) {
  ScriptedServer server([](Peer& peer) {
    peer.read_head();
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
  });
  CurlTransport transport;
  auto response = transport.round_trip(request_to(server.url(), "HEAD"), soon());
  ASSERT_TRUE(response);
  EXPECT_EQ(response->header("content-length"), "1000");
  EXPECT_EQ(response->body, "");
}

// A request whose kept connection died is sent again, from the start of its body.
class PatternSource final : public BodySource {
 public:
  explicit PatternSource(uint64_t size) : size_(size) {}
  uint64_t size() const override { return size_; }
  Result<size_t> read(std::span<uint8_t> out) override {
    size_t count = std::min<uint64_t>(out.size(), std::min<uint64_t>(size_ - at_, 10'000));
    for (size_t i = 0; i < count; ++i) out[i] = static_cast<uint8_t>((at_ + i) * 7);
    at_ += count;
    return count;
  }
  Status rewind() override {
    ++rewinds;
    at_ = 0;
    return ok();
  }
  int rewinds = 0;

 private:
  uint64_t size_;
  uint64_t at_ = 0;
};

TEST(Transport, StreamsABodyFromASource) {
  constexpr size_t kSize = 3'000'000;
  SharedText received;
  ScriptedServer server([&](Peer& peer) {
    peer.read_head();
    received.set(peer.read_body(kSize));
    peer.answer(200, "");
  });
  CurlTransport transport;
  PatternSource source(kSize);
  HttpRequest request = request_to(server.url(), "PUT");
  request.source = &source;
  ASSERT_TRUE(transport.round_trip(request, soon()));
  std::string got = received.get();
  ASSERT_EQ(got.size(), kSize);
  for (size_t i = 0; i < kSize; ++i) ASSERT_EQ(static_cast<uint8_t>(got[i]), static_cast<uint8_t>(i * 7)) << i;
}

TEST(Transport, AShortSourceIsAnErrorNotAShortBody) {
  class Short final : public BodySource {
   public:
    uint64_t size() const override { return 100; }
    Result<size_t> read(std::span<uint8_t>) override { return Error(Code::kFileChanged, "it shrank"); }
    Status rewind() override { return ok(); }
  } source;
  ScriptedServer server([](Peer& peer) {
    peer.read_head();
    peer.read_body(100);
  });
  CurlTransport transport;
  HttpRequest request = request_to(server.url(), "PUT");
  request.source = &source;
  EXPECT_EQ(transport.round_trip(request, soon()).error().code(), Code::kFileChanged);
}

TEST(Transport, ADeadKeptConnectionIsReplaced) {
  std::atomic<int> served{0};
  ScriptedServer server([&](Peer& peer) {
    peer.read_head();
    peer.read_body(200'000);
    peer.answer(200, std::to_string(++served));
  });  // closes after one answer without saying so
  CurlTransport transport;
  PatternSource source(200'000);
  HttpRequest request = request_to(server.url(), "PUT");
  request.source = &source;
  for (int i = 1; i <= 3; ++i) {
    ASSERT_TRUE(source.rewind());
    auto response = transport.round_trip(request, soon());
    ASSERT_TRUE(response) << response.error().to_string();
    EXPECT_EQ(response->body, std::to_string(i));
    while (server.ended() < i) ::usleep(1000);  // closed while it is kept, not while it is written to
  }
}

TEST(Transport, BodiesGoToTheSinkAndRefusalsDoNot) {
  std::string large(1'000'000, 'x');
  std::atomic<int> count{0};
  ScriptedServer server([&](Peer& peer) {
    while (!peer.read_head().empty()) peer.answer(count++ == 0 ? 200 : 404, large);
  });
  CurlTransport transport;
  std::string got;
  HttpRequest request = request_to(server.url());
  request.sink = [&](std::span<const uint8_t> piece) {
    got.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    return ok();
  };
  auto response = transport.round_trip(request, soon());
  ASSERT_TRUE(response);
  EXPECT_EQ(got, large);
  EXPECT_EQ(response->body, "");
  EXPECT_EQ(response->body_bytes, large.size());
  response = transport.round_trip(request, soon());
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 404);
  EXPECT_EQ(response->body, large);
  EXPECT_EQ(got.size(), large.size());
}

TEST(Transport, TheSinksErrorEndsTheCall) {
  ScriptedServer server([&](Peer& peer) {
    peer.read_head();
    peer.answer(200, std::string(1'000'000, 'x'));
  });
  CurlTransport transport;
  HttpRequest request = request_to(server.url());
  request.sink = [](std::span<const uint8_t>) -> Status { return Error(Code::kNoSpaceLeft, "full"); };
  EXPECT_EQ(transport.round_trip(request, soon()).error().code(), Code::kNoSpaceLeft);
}

TEST(Transport, AnswersAreBounded) {
  ScriptedServer server([&](Peer& peer) {
    peer.read_head();
    peer.answer(200, std::string(100'000, 'x'));
  });
  CurlTransport transport;
  HttpRequest request = request_to(server.url());
  request.response_bytes_max = 99'999;
  auto response = transport.round_trip(request, soon());
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code(), Code::kLimitExceeded);
  request.response_bytes_max = 100'000;
  EXPECT_TRUE(transport.round_trip(request, soon()));
}

TEST(Transport, RangesMustBeAnsweredAsAsked) {
  SharedText head;
  SharedText reply;
  ScriptedServer server([&](Peer& peer) {
    head.set(peer.read_head());
    peer.send(reply.get());
  });
  CurlTransport transport;
  HttpRequest request = request_to(server.url());
  request.range = ByteRange{10, 5};
  reply.set("HTTP/1.1 206 X\r\nContent-Range: bytes 10-14/100\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello");
  auto response = transport.round_trip(request, soon());
  ASSERT_TRUE(response) << response.error().to_string();
  EXPECT_EQ(response->body, "hello");
  EXPECT_NE(head.get().find("Range: bytes=10-14\r\n"), std::string::npos);

  for (const char* wrong :
       {"HTTP/1.1 200 X\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
        "HTTP/1.1 206 X\r\nContent-Range: bytes 0-4/100\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
        "HTTP/1.1 206 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        "HTTP/1.1 206 X\r\nContent-Range: bytes 10-15/100\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello!"}) {
    reply.set(wrong);
    EXPECT_FALSE(transport.round_trip(request, soon())) << wrong;
  }
  reply.set("HTTP/1.1 404 X\r\nContent-Length: 4\r\nConnection: close\r\n\r\ngone");
  response = transport.round_trip(request, soon());
  ASSERT_TRUE(response);
  EXPECT_EQ(response->body, "gone");
}

TEST(Failures, NobodyListens) {
  std::string url;
  std::string authority;
  {
    ScriptedServer gone([](Peer&) {});
    url = gone.url();
    authority = gone.authority();
  }
  CurlTransport transport;
  HttpRequest request = request_to(url, "POST");
  request.mutation = true;
  auto response = transport.round_trip(request, soon());
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code(), Code::kServerUnavailable);
  EXPECT_NE(response.error().message().find(authority), std::string::npos) << response.error().message();
  EXPECT_NE(response.error().message().find("nothing was sent"), std::string::npos);
}

TEST(Failures, AnUnknownHostIsUnavailable) {
  CurlTransport transport;
  auto response = transport.round_trip(request_to("http://no-such-host.invalid/"), soon());
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code(), Code::kServerUnavailable);
}

TEST(Failures, ABreakAfterSendingIsUnknownForMutationsOnly) {
  for (bool reset : {false, true}) {
    ScriptedServer server([&](Peer& peer) {
      peer.read_head();
      if (reset) peer.reset();
    });
    CurlTransport transport;
    HttpRequest request = request_to(server.url(), "POST");
    request.mutation = true;
    auto response = transport.round_trip(request, soon());
    ASSERT_FALSE(response);
    EXPECT_EQ(response.error().code(), Code::kOutcomeUnknown) << response.error().to_string();
    EXPECT_NE(response.error().message().find(server.authority()), std::string::npos);
    request.mutation = false;
    EXPECT_EQ(transport.round_trip(request, soon()).error().code(), Code::kServerUnavailable);
  }
}

TEST(Failures, ATruncatedAnswerIsNotAnAnswer) {
  ScriptedServer server([&](Peer& peer) {
    peer.read_head();
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
  });
  CurlTransport transport;
  EXPECT_EQ(transport.round_trip(request_to(server.url()), soon()).error().code(), Code::kServerUnavailable);
  HttpRequest mutation = request_to(server.url(), "POST");
  mutation.mutation = true;
  EXPECT_EQ(transport.round_trip(mutation, soon()).error().code(), Code::kOutcomeUnknown);
}

TEST(Failures, GarbageIsNotAnAnswer) {
  ScriptedServer server([&](Peer& peer) {
    peer.read_head();
    peer.send("hello, I am not HTTP\r\n\r\n");
  });
  CurlTransport transport;
  EXPECT_EQ(transport.round_trip(request_to(server.url()), soon()).error().code(), Code::kServerUnavailable);
}

TEST(Failures, AnEarlyRefusalIsReadThoughTheBodyWasNotSent) {
  ScriptedServer server([&](Peer& peer) {
    peer.read_head();
    peer.answer(503, "busy", "Connection: close\r\nRetry-After: 2\r\n");
    peer.read_body(64 << 20);
  });
  CurlTransport transport;
  std::string large(32 << 20, 'x');
  HttpRequest request = request_to(server.url(), "PUT");
  request.body = bytes_of(large);
  auto response = transport.round_trip(request, soon());
  ASSERT_TRUE(response) << response.error().to_string();
  EXPECT_EQ(response->status, 503);
  EXPECT_EQ(response->body, "busy");
  EXPECT_EQ(response->retry_after, std::chrono::seconds(2));
}

TEST(Deadlines, EndACallThatWaits) {
  ScriptedServer server([&](Peer& peer) {
    peer.read_head();
    peer.read_head();
  });
  CurlTransport transport;
  HttpRequest request = request_to(server.url(), "POST");
  auto start = SteadyClock::now();
  EXPECT_EQ(transport.round_trip(request, Deadline::after(milliseconds(300))).error().code(), Code::kDeadlineExceeded);
  EXPECT_LT(seconds_since(start), 3);
  request.mutation = true;
  EXPECT_EQ(transport.round_trip(request, Deadline::after(milliseconds(300))).error().code(), Code::kOutcomeUnknown);
}

TEST(Deadlines, CancellingIsNoticedSoon) {
  ScriptedServer server([&](Peer& peer) {
    peer.read_head();
    peer.read_head();
  });
  CurlTransport transport;
  CancelToken token;
  std::thread canceller([&] {
    ::usleep(200'000);
    token.cancel();
  });
  auto start = SteadyClock::now();
  auto response = transport.round_trip(request_to(server.url()), Deadline::never(token));
  EXPECT_LT(seconds_since(start), 3);
  EXPECT_EQ(response.error().code(), Code::kCancelled);
  canceller.join();
}

TEST(Deadlines, AStalledServerIsGivenUp) {
  ScriptedServer server([&](Peer& peer) {
    peer.read_head();
    peer.read_head();
  });
  CurlTransport transport;
  HttpRequest request = request_to(server.url());
  request.stall_timeout = std::chrono::seconds(1);
  auto start = SteadyClock::now();
  auto response = transport.round_trip(request, Deadline::after(seconds(60)));
  EXPECT_EQ(response.error().code(), Code::kServerUnavailable);
  EXPECT_LT(seconds_since(start), 20);
}

TEST(Deadlines, WaitingForAConnectionCounts) {
  ScriptedServer server([&](Peer& peer) {
    peer.read_head();
    peer.read_head();
  });
  CurlSettings settings;
  settings.connections_max = 1;
  CurlTransport transport(settings);
  CancelToken token;
  std::thread holder([&] { EXPECT_FALSE(transport.round_trip(request_to(server.url()), Deadline::never(token))); });
  while (server.accepted() == 0) ::usleep(1000);
  auto response = transport.round_trip(request_to(server.url()), Deadline::after(milliseconds(200)));
  EXPECT_EQ(response.error().code(), Code::kDeadlineExceeded);
  EXPECT_NE(response.error().message().find("waiting for a free connection"), std::string::npos);
  token.cancel();
  holder.join();
}

TEST(Threads, ShareOneTransport) {
  ScriptedServer server([](Peer& peer) {
    for (std::string head; !(head = peer.read_head()).empty();) {
      size_t at = head.find("/n") + 1;
      peer.answer(200, head.substr(at, head.find(' ', at) - at));
    }
  });
  CurlSettings settings;
  settings.connections_max = 4;
  CurlTransport transport(settings);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        std::string name = "n" + std::to_string(t * 1000 + i);
        auto response = transport.round_trip(request_to(server.url("/" + name)), soon());
        ASSERT_TRUE(response) << response.error().to_string();
        EXPECT_EQ(response->body, name);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_LE(server.accepted(), 4);
}

TEST(Requests, MalformedOnesAreRefusedUnsent) {
  CurlTransport transport;
  HttpRequest request = request_to("http://127.0.0.1:1/");
  auto code = [&](const HttpRequest& r) { return transport.round_trip(r, soon()).error().code(); };
  HttpRequest bad = request;
  bad.headers = {{"X", "a\r\nY: b"}};
  EXPECT_EQ(code(bad), Code::kUsage);
  bad.headers = {{"X Y", "a"}};
  EXPECT_EQ(code(bad), Code::kUsage);
  bad = request;
  bad.method = "GET /x HTTP/1.1\r\n";
  EXPECT_EQ(code(bad), Code::kUsage);
  bad = request;
  bad.range = ByteRange{0, 0};
  EXPECT_EQ(code(bad), Code::kUsage);
  bad.range = ByteRange{UINT64_MAX, 2};
  EXPECT_EQ(code(bad), Code::kUsage);
  bad = request;
  bad.url = "file:///etc/passwd";
  EXPECT_EQ(code(bad), Code::kUsage);
}

// A child must not inherit a connection that carries a token.
TEST(Sockets, AreClosedOnExec) {
  ScriptedServer server([](Peer& peer) {
    while (!peer.read_head().empty()) peer.answer(200, "");
  });
  CurlTransport transport;
  ASSERT_TRUE(transport.round_trip(request_to(server.url()), soon()));
  for (int fd = 3; fd < 256; ++fd) {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0 || address.sin_family != AF_INET) continue;
    EXPECT_NE(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0) << fd;
  }
}

}  // namespace
}  // namespace cairn::net
