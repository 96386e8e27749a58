// What must be set for a whole process before torch does its first work: threads, allocator, CPU features. Called once,
// at the start of main, by each process that trains.
#pragma once

#include <string>
#include <vector>

namespace cairn::trainer {

struct RuntimeSettings {
  int threads = 0;            // of one process, for tensor work; 0: OMP_NUM_THREADS, else its share of the CPUs it may use
  int processes = 1;          // that share these CPUs
  bool deterministic = true;  // the same result for the same threads, run after run
};

struct RuntimeFacts {
  int threads = 0;
  std::string torch_version;
  std::string cpu_capability;         // what ATen's own kernels use: DEFAULT, AVX2, AVX512
  std::string blas;                   // the library that multiplies fp32 matrices on the CPU, as far as it can be told
  bool cpu_bfloat16 = false;          // the CPU multiplies bf16 in hardware (AVX512-BF16 or AMX): worth computing in
  std::vector<std::string> warnings;  // what makes this machine slow, with the command that mends it
};

// Sets threads, allocator thresholds (freed tensors stay with the process; page faults cost 5 to 15 % otherwise) and
// ATen's CPU capability, unless settings or environment say otherwise (OMP_NUM_THREADS, ATEN_CPU_CAPABILITY). Call
// before any tensor exists.
RuntimeFacts set_up_runtime(const RuntimeSettings& settings);

// The CPU multiplies bf16 in hardware.
bool cpu_has_bfloat16();

}  // namespace cairn::trainer
