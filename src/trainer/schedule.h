// The learning rate of each optimizer step: constant; linear (warm-up, plateau, decay over the last steps); cosine after a warm-up.
// Equal to torch's LinearLR, CosineAnnealingLR and SequentialLR as prime-rl composes them. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "config/training_config.h"

namespace cairn::trainer {

class Schedule {
 public:
  // `total_steps` is empty for an endless run, which has no decay.
  Schedule(const config::SchedulerSettings& settings, double lr, std::optional<int64_t> total_steps)
      : settings_(settings), lr_(lr), total_steps_(total_steps) {}

  // Of the update that follows `index` earlier ones.
  double lr_at(int64_t index) const;

 private:
  double factor_at(int64_t index) const;
  config::SchedulerSettings settings_;
  double lr_;
  std::optional<int64_t> total_steps_;
};

}  // namespace cairn::trainer
