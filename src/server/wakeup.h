// Wakes long polls when something may have changed for them: a run was placed or stopped, a log line came. Changes made by
// other servers are not seen here, so whoever waits also looks again every second.
//
// Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "base/clock.h"
#include "base/deadline.h"

namespace cairn::server {

class Wakeup {
 public:
  static constexpr Duration kLookAgain = seconds(1);

  // What a waiter takes before it looks, so that no change between looking and waiting is missed.
  uint64_t position() {
    std::lock_guard lock(mutex_);
    return position_;
  }
  void notify() {
    {
      std::lock_guard lock(mutex_);
      ++position_;
    }
    changed_.notify_all();
  }
  // Until something changed after `position`, kLookAgain has passed, or the deadline ended.
  void wait_after(uint64_t position, const Deadline& deadline) {
    constexpr Duration kSlice = milliseconds(100);  // a stopping server cancels the deadline and cannot notify
    std::unique_lock lock(mutex_);
    for (Duration waited(0); waited < kLookAgain && position_ == position && !deadline.expired(); waited += kSlice) {
      changed_.wait_for(lock, kSlice, [&] { return position_ != position; });
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t position_ = 0;
};

}  // namespace cairn::server
