// Time as Cairn uses it: Time is a wall-clock instant in microseconds since 1970-01-01 UTC (as stored in the catalog),
// Duration a span in microseconds. A Clock is passed to everything that waits or compares times, so that tests and the
// simulator can drift, jump and stop it.
//
// Clock implementations are thread-safe.
#pragma once

#include <chrono>
#include <compare>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>

namespace cairn {

using Duration = std::chrono::microseconds;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

struct Time {
  int64_t us = 0;  // microseconds since 1970-01-01T00:00:00Z

  auto operator<=>(const Time&) const = default;
  Time operator+(Duration d) const { return Time{us + d.count()}; }
  Time operator-(Duration d) const { return Time{us - d.count()}; }
  Duration operator-(Time other) const { return Duration(us - other.us); }
};

// "2026-11-29T19:05:50.123456Z"
std::string to_rfc3339(Time time);

class Clock {
 public:
  virtual ~Clock() = default;
  // Wall-clock time; may jump.
  virtual Time now() = 0;
  // Time since an arbitrary start; never goes back.
  virtual Duration monotonic() = 0;
  // Blocks the calling thread.
  virtual void sleep_for(Duration duration) = 0;
};

// The machine's clock. One instance for the process: `system_clock()`.
Clock& system_clock();

// A clock that moves only when told to: `sleep_for` advances it. For tests.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(Time start = Time{1'700'000'000'000'000}) : now_(start) {}
  Time now() override;
  Duration monotonic() override;
  void sleep_for(Duration duration) override { advance(duration); }
  // Moves wall clock and monotonic time together.
  void advance(Duration duration);
  // Moves the wall clock alone (an NTP step).
  void jump(Duration duration);

 private:
  std::mutex mutex_;
  Time now_;
  Duration monotonic_{0};
};

}  // namespace cairn
