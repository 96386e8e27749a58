// A speed limit shared by several threads: each asks for its bytes before it moves them and sleeps as long as needed for the
// average to hold. Thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>

#include "base/deadline.h"

namespace cairn::transfer {

class Pace {
 public:
  // 0: no limit.
  explicit Pace(uint64_t bytes_per_second, Clock& clock = system_clock()) : rate_(bytes_per_second), clock_(clock) {}

  Status wait_for(uint64_t bytes, const Deadline& deadline) {
    if (rate_ == 0) return ok();
    Duration start;
    {
      std::lock_guard lock(mutex_);
      start = std::max(next_, clock_.monotonic());
      next_ = start + Duration(static_cast<int64_t>(static_cast<double>(bytes) * 1e6 / static_cast<double>(rate_)));
    }
    while (clock_.monotonic() < start) {
      CAIRN_CHECK_OK(deadline.check());
      clock_.sleep_for(std::min<Duration>(start - clock_.monotonic(), milliseconds(100)));
    }
    return ok();
  }

 private:
  const uint64_t rate_;
  Clock& clock_;
  std::mutex mutex_;
  Duration next_{0};
};

}  // namespace cairn::transfer
