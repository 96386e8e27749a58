// Stopping: idle connections at once, running requests after their answer, the rest when the drain time is over.
#include <atomic>
#include <future>
#include <thread>

#include <gtest/gtest.h>

#include "http/test_server.h"

namespace cairn::http {
namespace {

using SteadyClock = std::chrono::steady_clock;

TEST(Stop, AnIdleServerStopsAtOnce) {
  TestServer server(echo);
  std::vector<RawClient> clients;
  for (int i = 0; i < 20; ++i) clients.emplace_back(server.port());
  clients[0].send(get("/a"));
  EXPECT_EQ(clients[0].read_answer().status, 200);
  ASSERT_TRUE(eventually([&] { return server->counters().connections_active == 20; }));
  auto start = SteadyClock::now();
  server->stop(seconds(30));
  EXPECT_LT(seconds_since(start), 3);
  for (auto& client : clients) EXPECT_EQ(client.read_to_end(), "");
  EXPECT_FALSE(RawClient(server.port()).connected());
  server->stop(seconds(1));
}

TEST(Stop, ARunningRequestIsAnsweredFirst) {
  std::atomic<bool> running{false};
  TestServer server([&](const RequestHead&) {
    return RoutePlan::buffered("slow", [&](const Request& request) {
      running = true;
      ::usleep(300'000);
      return Response::text(200, request.deadline.token().cancelled() ? "cancelled" : "finished");
    });
  });
  RawClient client(server.port());
  client.send(get("/"));
  ASSERT_TRUE(eventually([&] { return running.load(); }));
  server->stop(seconds(30));
  auto answer = client.read_answer();
  EXPECT_EQ(answer.body, "finished");
  EXPECT_NE(answer.head.find("Connection: close"), std::string::npos);
  EXPECT_EQ(client.read_to_end(), "");
}

TEST(Stop, LongPollsAreCancelledAtOnce) {
  std::atomic<bool> running{false};
  TestServer server([&](const RequestHead&) {
    return RoutePlan::long_poll("poll", [&](const Request& request) {
      running = true;
      while (!request.deadline.expired()) ::usleep(5'000);
      return Response::text(200, "nothing yet");
    });
  });
  RawClient client(server.port());
  client.send(get("/"));
  ASSERT_TRUE(eventually([&] { return running.load(); }));
  auto start = SteadyClock::now();
  server->stop(seconds(30));
  EXPECT_LT(seconds_since(start), 5);
  EXPECT_EQ(client.read_answer().body, "nothing yet");
}

TEST(Stop, CallsAreCancelledWhenTheDrainTimeIsOver) {
  std::atomic<bool> running{false};
  TestServer server([&](const RequestHead&) {
    return RoutePlan::buffered("endless", [&](const Request& request) {
      running = true;
      while (!request.deadline.expired()) ::usleep(5'000);
      return Response::text(200, "late");
    });
  });
  RawClient client(server.port());
  client.send(get("/"));
  RawClient uploading(server.port());
  uploading.send(put("/", 1000) + "begun");
  ASSERT_TRUE(eventually([&] { return running && server->counters().requests_active == 2; }));
  auto start = SteadyClock::now();
  server->stop(milliseconds(200));
  EXPECT_GT(seconds_since(start), 0.15);
  EXPECT_LT(seconds_since(start), 5);
  EXPECT_EQ(uploading.read_to_end(), "");
}

TEST(Stop, UnderLoad) {
  for (int round = 0; round < 5; ++round) {
    TestServer server(echo);
    std::atomic<bool> done{false};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        while (!done) {
          RawClient client(server.port());
          for (int i = 0; i < 20 && client.send(put("/a", 4) + "body"); ++i) {
            auto answer = client.read_answer();
            if (answer.status == 0) break;
            EXPECT_EQ(answer.body, "body");
          }
        }
      });
    }
    ::usleep(50'000);
    server->stop(seconds(10));
    done = true;
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(server->counters().connections_active, 0u);
    EXPECT_EQ(server->counters().requests_active, 0u);
  }
}

TEST(Requests, CarryTheirRoutesDeadline) {
  TestServer server([](const RequestHead&) {
    RoutePlan plan = RoutePlan::buffered("d", [](const Request& request) {
      return Response::text(200, request.deadline.remaining() <= seconds(7) ? "bounded" : "long");
    });
    plan.time_limit = seconds(7);
    return plan;
  });
  RawClient client(server.port());
  client.send(get("/"));
  EXPECT_EQ(client.read_answer().body, "bounded");
}

}  // namespace
}  // namespace cairn::http
