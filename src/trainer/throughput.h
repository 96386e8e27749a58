// Tokens a second over the last ten steps, as the step line shows it: 0 until there are two. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>

#include "base/clock.h"

namespace cairn::trainer {

class Throughput {
 public:
  explicit Throughput(Clock& clock) : clock_(clock) {}

  // A step of so many tokens has just ended.
  void add(int64_t tokens) {
    steps_.push_back(Step{tokens, clock_.monotonic()});
    if (steps_.size() > kWindow) steps_.pop_front();
  }
  double tokens_per_second() const {
    if (steps_.size() < 2) return 0;
    int64_t tokens = 0;
    for (size_t i = 1; i < steps_.size(); ++i) tokens += steps_[i].tokens;
    double took = std::chrono::duration<double>(steps_.back().ended - steps_.front().ended).count();
    return took > 0 ? static_cast<double>(tokens) / took : 0;
  }

 private:
  static constexpr size_t kWindow = 10;
  struct Step {
    int64_t tokens;
    Duration ended;
  };
  Clock& clock_;
  std::deque<Step> steps_;
};

}  // namespace cairn::trainer
