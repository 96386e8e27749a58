#include "http/blocking_pool.h"

#include <algorithm>
#include <system_error>

#include "base/check.h"
#include "base/log.h"

namespace cairn::http {

BlockingPool::BlockingPool(uint32_t threads_max, uint32_t queue_max)
    : threads_max_(std::max(1u, threads_max)), queue_max_(queue_max) {}

bool BlockingPool::submit(std::function<void()> job) {
  std::lock_guard lock(mutex_);
  if (queue_.size() + busy_ >= size_t{threads_max_} + queue_max_) return false;
  enqueue(std::move(job));
  return true;
}

void BlockingPool::submit_always(std::function<void()> job) {
  std::lock_guard lock(mutex_);
  enqueue(std::move(job));
}

void BlockingPool::enqueue(std::function<void()> job) {
  CAIRN_CHECK(!stopping_);
  queue_.push_back(std::move(job));
  if (queue_.size() + busy_ > threads_.size() && threads_.size() < threads_max_) {
    try {
      threads_.emplace_back([this] { work(); });
      return;
    } catch (const std::system_error& error) {
      CAIRN_CHECK(!threads_.empty());  // nobody would ever run the job
      log_warning("cannot start another pool thread: {}", error.what());
    }
  }
  wake_.notify_one();
}

void BlockingPool::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    std::function<void()> job = std::move(queue_.front());
    queue_.pop_front();
    ++busy_;
    lock.unlock();
    job();
    job = nullptr;  // what it holds is let go outside the lock
    lock.lock();
    --busy_;
  }
}

void BlockingPool::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

}  // namespace cairn::http
