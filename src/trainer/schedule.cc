#include "trainer/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace cairn::trainer {
namespace {

// From `from` at 0 to `to` at `length` and beyond.
double between(double from, double to, int64_t at, int64_t length) {
  if (at >= length) return to;
  return from + (to - from) * static_cast<double>(at) / static_cast<double>(length);
}

}  // namespace

double Schedule::lr_at(int64_t index) const {
  using config::SchedulerKind;
  if (lr_ == 0 || settings_.kind == SchedulerKind::kConstant) return lr_;
  if (settings_.kind == SchedulerKind::kCosine && index >= settings_.warmup_steps && total_steps_) {
    int64_t length = std::max<int64_t>(1, *total_steps_ - settings_.warmup_steps);
    double at = static_cast<double>(std::min(index - settings_.warmup_steps, length)) / static_cast<double>(length);
    return settings_.min_lr + (lr_ - settings_.min_lr) * (1 + std::cos(std::numbers::pi * at)) / 2;
  }
  return lr_ * factor_at(index);
}

double Schedule::factor_at(int64_t index) const {
  double least = settings_.min_lr > 0 ? settings_.min_lr / lr_ : 1e-8;
  if (settings_.kind == config::SchedulerKind::kLinear && settings_.decay_steps > 0 && total_steps_) {
    // The last update has the least rate, so the decay is one interval shorter than it has steps.
    int64_t start = *total_steps_ - settings_.decay_steps;
    if (index >= start) return between(1, least, index - start, settings_.decay_steps - 1);
  }
  return between(least, 1, index, settings_.warmup_steps);
}

}  // namespace cairn::trainer
