// Threads for calls that block. A pool has at most so many threads, started as they are needed, and a queue of at most
// so many jobs behind them; what exceeds both is refused at once.
//
// Threads: all members may be called from any thread. Jobs must not throw. Internal to http.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace cairn::http {

class JobRunner {
 public:
  virtual ~JobRunner() = default;
  // False: the queue is full and the job was not taken.
  virtual bool submit(std::function<void()> job) = 0;
  // For the second half of work whose first half was taken: the queue's limit does not count.
  virtual void submit_always(std::function<void()> job) = 0;
};

class BlockingPool final : public JobRunner {
 public:
  BlockingPool(uint32_t threads_max, uint32_t queue_max);
  ~BlockingPool() override { stop(); }

  bool submit(std::function<void()> job) override;
  void submit_always(std::function<void()> job) override;
  // Runs what is queued, then ends the threads. Nothing may be submitted afterwards.
  void stop();

 private:
  void enqueue(std::function<void()> job);
  void work();

  const uint32_t threads_max_;
  const uint32_t queue_max_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;
  std::vector<std::thread> threads_;
  uint32_t busy_ = 0;
  bool stopping_ = false;
};

}  // namespace cairn::http
