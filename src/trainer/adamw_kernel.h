// The inner loop of AdamW on fp32 arrays: one pass that reads gradient, weight and both moments and writes the last three. Uses the
// widest vectors the processor has; the result of an element depends on its own values alone, so any split over threads gives the
// same bytes.
#pragma once

#include <cstdint>

namespace cairn::trainer {

struct AdamWPass {
  float gradient_scale = 1;
  float decay = 1;          // 1 - lr * weight_decay
  float beta1 = 0;
  float beta2 = 0;
  float step_size = 0;      // lr / (1 - beta1^steps)
  float root_correction = 1;  // sqrt(1 - beta2^steps)
  float eps = 0;
};

void adamw_pass(const AdamWPass& pass, const float* gradient, float* weight, float* moment1, float* moment2, int64_t count);

}  // namespace cairn::trainer
