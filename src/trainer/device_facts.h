// What this process computes on: device, memory, and the speed that model FLOPs utilisation is measured against: the bf16 peak of
// known GPUs. For other devices and CPUs no honest peak is known, and none is shown. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <c10/core/Device.h>

#include "base/result.h"
#include "trainer/decoder_spec.h"

namespace cairn::trainer {

// What a run says about GPUs, and what is there.
struct GpuSight {
  bool built = false;                        // this program can use them
  int usable = 0;
  std::optional<std::string> given_devices;  // CUDA_VISIBLE_DEVICES, which Cairn sets for every run; empty: to use none
  std::string wished_type;                   // the config's gpu_type, for a run by hand without that variable
};
GpuSight look_for_gpus(const std::string& wished_type);

// For process `rank` of `size`: a GPU of its own where there are GPUs, else the CPU. gpu_type_unavailable when the run was given
// GPUs and none can be used, which would train very slowly and say nothing, and when there are fewer GPUs than processes.
Result<c10::Device> training_device(const GpuSight& gpus, int rank, int size);

// The device multiplies bf16 in hardware: GPUs from Ampere on. Older ones emulate it, slower than fp32.
bool has_bfloat16(c10::Device device);

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
