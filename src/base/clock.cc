#include "base/clock.h"

#include <cstdio>
#include <ctime>
#include <thread>

namespace cairn {
namespace {

class SystemClock final : public Clock {
 public:
  Time now() override {
    auto since = std::chrono::system_clock::now().time_since_epoch();
    return Time{std::chrono::duration_cast<Duration>(since).count()};
  }
  Duration monotonic() override {
    return std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch());
  }
  void sleep_for(Duration duration) override { std::this_thread::sleep_for(duration); }
};

}  // namespace

Clock& system_clock() {
  static SystemClock clock;
  return clock;
}

std::string to_rfc3339(Time time) {
  int64_t whole = time.us / 1'000'000;
  int64_t fraction = time.us % 1'000'000;
  if (fraction < 0) {
    fraction += 1'000'000;
    --whole;
  }
  std::time_t when = static_cast<std::time_t>(whole);
  std::tm parts{};
  gmtime_r(&when, &parts);
  char text[64];
  size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text + length, sizeof text - length, ".%06lldZ", static_cast<long long>(fraction));
  return text;
}

Time ManualClock::now() {
  std::lock_guard lock(mutex_);
  return now_;
}

Duration ManualClock::monotonic() {
  std::lock_guard lock(mutex_);
  return monotonic_;
}

void ManualClock::advance(Duration duration) {
  std::lock_guard lock(mutex_);
  now_ = now_ + duration;
  monotonic_ += duration;
}

void ManualClock::jump(Duration duration) {
  std::lock_guard lock(mutex_);
  now_ = now_ + duration;
}

}  // namespace cairn
