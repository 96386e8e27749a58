// What this process computes on: device, memory, and the speed that model FLOPs utilisation is measured against: the bf16 peak of
// known GPUs. For other devices and CPUs no honest peak is known, and none is shown. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include <c10/core/Device.h>

#include "trainer/decoder_spec.h"

namespace cairn::trainer {

// A GPU where there is one (the one of `rank`), else the CPU.
c10::Device training_device(int rank);

class DeviceFacts {
 public:
  explicit DeviceFacts(c10::Device device);
  // Nothing is known: every figure is 0.
  DeviceFacts() : device_(c10::kCPU) {}

  std::string text() const;
  // Of `tokens_per_second` on this device; NaN when its peak is not known.
  double mfu_percent(double tokens_per_second, const DecoderSpec& spec, int64_t sequence_length) const;
  double peak_memory_gib() const;   // of this process, so far
  double total_memory_gib() const { return total_memory_gib_; }

 private:
  c10::Device device_;
  std::string name_;
  double peak_flops_ = 0;
  double total_memory_gib_ = 0;
};

}  // namespace cairn::trainer
