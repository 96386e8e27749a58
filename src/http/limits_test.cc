// Deadlines and limits, each checked with a raw socket: a client that is slow, large, malformed or gone costs the
// server nothing but its connection.
#include <sys/resource.h>

#include <atomic>
#include <future>
#include <thread>

#include <gtest/gtest.h>

#include "http/test_server.h"

namespace cairn::http {
namespace {

using SteadyClock = std::chrono::steady_clock;

// Sends `drop` again and again until the server closes; how long that took.
double drip_until_closed(RawClient& client, std::string_view drop, int pause_us) {
  auto start = SteadyClock::now();
  while (seconds_since(start) < 10) {
    pollfd state{client.fd(), POLLIN, 0};
    if (::poll(&state, 1, 0) > 0) break;
    if (!client.send(drop)) break;
    ::usleep(static_cast<useconds_t>(pause_us));
  }
  return seconds_since(start);
}

TEST(Deadlines, IdleConnectionsAreClosed) {
  TestServer server(echo, quick_settings());
  RawClient client(server.port());
  auto start = SteadyClock::now();
  EXPECT_EQ(client.read_to_end(), "");
  EXPECT_GT(seconds_since(start), 0.35);
  EXPECT_LT(seconds_since(start), 3);
  EXPECT_TRUE(eventually([&] { return server->counters().timeouts == 1; }));
}

TEST(Deadlines, IdleHoldsBetweenRequestsToo) {
  TestServer server(echo, quick_settings());
  RawClient client(server.port());
  client.send(get("/a"));
  EXPECT_EQ(client.read_answer().status, 200);
  EXPECT_EQ(client.read_to_end(), "");
}

TEST(Deadlines, ADrippedHeaderEndsAtItsDeadline) {
  TestServer server(echo, quick_settings());
  RawClient client(server.port());
  client.send("GET / HTTP/1.1\r\nHost: h\r\n");
  // Each drop comes well before the header's deadline, which must not move with it.
  double took = drip_until_closed(client, "X: y\r\n", 50'000);
  EXPECT_GT(took, 0.2);
  EXPECT_LT(took, 3);
  EXPECT_EQ(client.read_answer().status, 408);
}

TEST(Deadlines, AStalledBodyEnds) {
  TestServer server(echo, quick_settings());
  RawClient client(server.port());
  client.send(put("/a", 100'000) + "some");
  auto answer = client.read_answer();
  EXPECT_EQ(answer.status, 408);
  EXPECT_NE(answer.body.find("4 of 100000 bytes"), std::string::npos) << answer.body;
}

TEST(Deadlines, ADrippedBodyEndsAtTheMinimumRate) {
  TestServer server(echo, quick_settings());
  RawClient client(server.port());
  client.send(put("/a", 1'000'000));
  double took = drip_until_closed(client, "x", 50'000);
  EXPECT_GT(took, 0.4);
  EXPECT_LT(took, 3);
  EXPECT_EQ(client.read_answer().status, 408);
}

TEST(Deadlines, ABodyAboveTheMinimumRateMayTakeLong) {
  ServerSettings settings = quick_settings();
  settings.timeouts.body_start = milliseconds(200);
  settings.timeouts.body_bytes_per_second_min = 10;
  TestServer server(echo, settings);
  RawClient client(server.port());
  client.send(put("/a", 200));
  for (int i = 0; i < 10; ++i) {
    client.send(std::string(20, 'x'));
    ::usleep(60'000);
  }
  EXPECT_EQ(client.read_answer().status, 200);
}

TEST(Deadlines, AClientThatDoesNotReadIsDropped) {
  std::string large(8 << 20, 'x');
  TestServer server([&](const RequestHead&) { return RoutePlan::answer("large", Response::text(200, large)); },
                    quick_settings());
  RawClient client(server.port(), 4096);
  client.send(get("/"));
  EXPECT_TRUE(eventually([&] { return server->counters().connections_active == 1; }));
  EXPECT_TRUE(eventually([&] { return server->counters().connections_active == 0; }));
  EXPECT_EQ(server->counters().timeouts, 1u);
}

TEST(Deadlines, ASendfileWithoutReaderIsDropped) {
  TestServer server(
      [&](const RequestHead&) {
        return RoutePlan::buffered("file", [](const Request&) {
          FILE* file = std::tmpfile();
          int fd = ::dup(::fileno(file));
          std::fclose(file);
          EXPECT_EQ(::ftruncate(fd, 64 << 20), 0);
          Response response;
          response.file = FileBody::owning(fd, 0, 64 << 20);
          return response;
        });
      },
      quick_settings());
  RawClient client(server.port(), 4096);
  client.send(get("/"));
  EXPECT_TRUE(eventually([&] { return server->counters().requests_active == 1; }));
  EXPECT_TRUE(eventually([&] { return server->counters().connections_active == 0; }));
  EXPECT_EQ(server->counters().timeouts, 1u);
}

TEST(Limits, ALargeHeaderIs431) {
  TestServer server(echo);
  RawClient client(server.port());
  client.send("GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(20'000, 'x') + "\r\n\r\n");
  auto answer = client.read_answer();
  EXPECT_EQ(answer.status, 431);
  EXPECT_NE(answer.head.find("Connection: close"), std::string::npos);
  EXPECT_EQ(client.read_to_end(), "");
}

TEST(Limits, ALargeBodyIs413BeforeAByteIsRead) {
  TestServer server(echo);
  RawClient client(server.port());
  client.send(put("/a", 100 << 20));
  auto answer = client.read_answer();
  EXPECT_EQ(answer.status, 413);
  EXPECT_NE(answer.body.find("request_too_large"), std::string::npos);
  EXPECT_NE(answer.head.find("Connection: close"), std::string::npos);
}

// A client that sends first and reads then must still find the answer, not a reset.
TEST(Limits, TheRefusalReachesAClientThatKeepsSending) {
  TestServer server(echo);
  RawClient client(server.port());
  std::string body(8 << 20, 'x');
  std::string head = put("/a", body.size());
  client.send(head);
  client.send(body);
  EXPECT_EQ(client.read_answer().status, 413);
}

TEST(Limits, ChunkedBodiesAre411) {
  TestServer server(echo);
  RawClient client(server.port());
  client.send("PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
  EXPECT_EQ(client.read_answer().status, 411);
  EXPECT_EQ(client.read_to_end(), "");
}

TEST(Limits, MalformedRequestsAre400AndClose) {
  TestServer server(echo);
  for (std::string bytes :
       {std::string("\0\0\0\0\r\n\r\n", 8), std::string("GET\r\n\r\n"), std::string("\x16\x03\x01\x02\x00\x01"),
        std::string("GET / HTTP/1.1\r\nBad Header\r\n\r\n"), get("/../etc/passwd"), get("no-slash")}) {
    RawClient client(server.port());
    client.send(bytes);
    client.shutdown_send();
    std::string all = client.read_to_end();
    EXPECT_EQ(all.rfind("HTTP/1.1 400 ", 0), 0u) << bytes << " -> " << all;
  }
}

TEST(Limits, AFullPoolAnswers503AtOnce) {
  ServerSettings settings = patient_settings();
  settings.pool_threads = 1;
  settings.pool_queue_max = 1;
  std::promise<void> gate;
  std::shared_future<void> open = gate.get_future().share();
  TestServer server(
      [open](const RequestHead& head) {
        if (head.raw_path == "/free") return RoutePlan::answer("free", Response::text(200, "free"));
        return RoutePlan::buffered("wait", [open](const Request&) {
          open.wait();
          return Response::text(200, "done");
        });
      },
      settings);
  RawClient first(server.port());
  RawClient second(server.port());
  first.send(get("/wait"));
  second.send(get("/wait"));
  ASSERT_TRUE(eventually([&] { return server->counters().requests_active == 2; }));
  RawClient third(server.port());
  third.send(get("/wait"));
  auto answer = third.read_answer();
  EXPECT_EQ(answer.status, 503);
  EXPECT_NE(answer.head.find("Retry-After: 1"), std::string::npos);
  // The body was read, so the connection goes on; and what needs no pool is served.
  third.send(get("/free"));
  EXPECT_EQ(third.read_answer().body, "free");
  EXPECT_EQ(server->counters().queue_refusals, 1u);
  gate.set_value();
  EXPECT_EQ(first.read_answer().body, "done");
  EXPECT_EQ(second.read_answer().body, "done");
}

TEST(Limits, LongPollsDoNotStarveOthers) {
  ServerSettings settings = patient_settings();
  settings.pool_threads = 1;
  settings.long_poll_threads = 2;
  settings.long_poll_queue_max = 0;
  std::promise<void> gate;
  std::shared_future<void> open = gate.get_future().share();
  TestServer server(
      [open](const RequestHead& head) {
        auto call = [open](const Request& request) {
          if (request.raw_path == "/poll") open.wait();
          return Response::text(200, "ok");
        };
        return head.raw_path == "/poll" ? RoutePlan::long_poll("poll", call) : RoutePlan::buffered("call", call);
      },
      settings);
  RawClient first(server.port());
  RawClient second(server.port());
  first.send(get("/poll"));
  second.send(get("/poll"));
  ASSERT_TRUE(eventually([&] { return server->counters().requests_active == 2; }));
  RawClient third(server.port());
  third.send(get("/call"));
  EXPECT_EQ(third.read_answer().status, 200);
  third.send(get("/poll"));
  EXPECT_EQ(third.read_answer().status, 503);
  gate.set_value();
  EXPECT_EQ(first.read_answer().status, 200);
}

TEST(Limits, HeavyCallsDoNotStarveOthers) {
  ServerSettings settings = patient_settings();
  settings.pool_threads = 1;
  settings.heavy_threads = 2;
  settings.heavy_queue_max = 1;
  std::promise<void> gate;
  std::shared_future<void> open = gate.get_future().share();
  TestServer server(
      [open](const RequestHead& head) {
        auto call = [open](const Request& request) {
          if (request.raw_path == "/work") open.wait();
          return Response::text(200, "ok");
        };
        return head.raw_path == "/work" ? RoutePlan::heavy("work", call, minutes(30))
                                        : RoutePlan::buffered("call", call);
      },
      settings);
  RawClient first(server.port());
  RawClient second(server.port());
  RawClient queued(server.port());
  for (RawClient* client : {&first, &second, &queued}) client->send(get("/work"));
  ASSERT_TRUE(eventually([&] { return server->counters().requests_active == 3; }));
  RawClient other(server.port());
  other.send(get("/call"));
  EXPECT_EQ(other.read_answer().status, 200);
  gate.set_value();
  for (RawClient* client : {&first, &second, &queued}) EXPECT_EQ(client->read_answer().status, 200);
}

TEST(Limits, BodiesInMemoryHaveABudget) {
  ServerSettings settings = patient_settings();
  settings.body_memory_bytes_max = 1'000'000;
  TestServer server(echo, settings);
  RawClient holder(server.port());
  holder.send(put("/a", 600'000) + "begun");
  ASSERT_TRUE(eventually([&] { return server->counters().body_memory_bytes == 600'000; }));
  RawClient other(server.port());
  other.send(put("/b", 600'000));
  EXPECT_EQ(other.read_answer().status, 503);
  holder.send(std::string(600'000 - 5, 'x'));
  EXPECT_EQ(holder.read_answer().body.size(), 600'000u);
  EXPECT_TRUE(eventually([&] { return server->counters().body_memory_bytes == 0; }));
}

TEST(Limits, ConnectionsOverTheMaximumGetA503) {
  ServerSettings settings = patient_settings();
  settings.connections_max = 2;
  TestServer server(echo, settings);
  RawClient first(server.port());
  RawClient second(server.port());
  ASSERT_TRUE(eventually([&] { return server->counters().connections_active == 2; }));
  RawClient third(server.port());
  EXPECT_EQ(third.read_answer().status, 503);
  first.close();
  ASSERT_TRUE(eventually([&] { return server->counters().connections_active == 1; }));
  RawClient fourth(server.port());
  fourth.send(get("/a"));
  EXPECT_EQ(fourth.read_answer().status, 200);
  EXPECT_EQ(server->counters().connections_refused, 1u);
}

TEST(Limits, OutOfDescriptorsWaitsInsteadOfSpinning) {
  TestServer server(echo);
  RawClient before(server.port());
  before.send(get("/a"));
  ASSERT_EQ(before.read_answer().status, 200);
  int client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(server.port());
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);

  rlimit saved{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &saved), 0);
  rlimit none = saved;
  none.rlim_cur = 3;  // below what is open: no new descriptor at all
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_EQ(::connect(client, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  std::string request = get("/b");
  EXPECT_EQ(::send(client, request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
  ::usleep(400'000);
  uint64_t failures = server->counters().accept_failures;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &saved), 0);
  EXPECT_GE(failures, 1u);
  EXPECT_LE(failures, 20u);
  char answer[16] = "";
  EXPECT_GT(::recv(client, answer, 12, 0), 0);
  EXPECT_STREQ(answer, "HTTP/1.1 200");
  ::close(client);
}

TEST(Limits, AThousandConnections) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_cur < 3000) {
    limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 4096);
    ::setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < 3000) GTEST_SKIP() << "needs 3,000 file descriptors";
  }
  TestServer server(echo);
  std::vector<RawClient> clients;
  for (int i = 0; i < 1000; ++i) {
    clients.emplace_back(server.port());
    ASSERT_TRUE(clients.back().connected());
  }
  EXPECT_TRUE(eventually([&] { return server->counters().connections_active == 1000; }));
  for (int round = 0; round < 2; ++round) {
    for (auto& client : clients) client.send(round == 0 ? get("/a") : put("/b", 3) + "abc");
    for (auto& client : clients) ASSERT_EQ(client.read_answer().status, 200);
  }
  EXPECT_TRUE(eventually([&] { return server->counters().requests_by_status[200] == 2000; }));
}

TEST(Limits, APortInUseIsRefusedByName) {
  TestServer server(echo);
  FunctionHandler handler(echo);
  ServerSettings settings;
  settings.port = server.port();
  auto second = Server::start(settings, handler);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::kConfigInvalid);
  EXPECT_NE(second.error().message().find("127.0.0.1:" + std::to_string(server.port())), std::string::npos);
}

}  // namespace
}  // namespace cairn::http
