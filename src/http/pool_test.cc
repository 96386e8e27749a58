// The blocking pool: as many threads as allowed, as much queue as allowed, and everything accepted is run.
#include <atomic>
#include <future>

#include <gtest/gtest.h>

#include "http/blocking_pool.h"

namespace cairn::http {
namespace {

TEST(BlockingPool, RefusesWhatExceedsThreadsAndQueue) {
  BlockingPool pool(2, 3);
  std::promise<void> gate;
  std::shared_future<void> open = gate.get_future().share();
  std::atomic<int> ran{0};
  auto job = [&ran, open] {
    open.wait();
    ++ran;
  };
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(pool.submit(job)) << i;
  EXPECT_FALSE(pool.submit(job));
  pool.submit_always(job);
  gate.set_value();
  pool.stop();
  EXPECT_EQ(ran, 6);
}

TEST(BlockingPool, RunsJobsAtTheSameTime) {
  BlockingPool pool(3, 0);
  std::atomic<int> inside{0};
  std::promise<void> all_inside;
  std::shared_future<void> met = all_inside.get_future().share();
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(pool.submit([&, met] {
      if (++inside == 3) all_inside.set_value();
      met.wait();
    }));
  }
  pool.stop();
  EXPECT_EQ(inside, 3);
}

TEST(BlockingPool, ManyThreadsSubmit) {
  BlockingPool pool(4, 100'000);
  std::atomic<int> ran{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) EXPECT_TRUE(pool.submit([&] { ++ran; }));
    });
  }
  for (auto& thread : threads) thread.join();
  pool.stop();
  EXPECT_EQ(ran, 8000);
}

}  // namespace
}  // namespace cairn::http
