#include "trainer/cpu_kernels.h"

#include <cstdlib>
#include <string_view>

namespace cairn::trainer {
namespace {

const CpuKernelSet& choose() {
#if defined(__x86_64__)
  const char* wish = std::getenv("CAIRN_CPU_KERNELS");
  const std::string_view most = wish != nullptr ? wish : "avx512";
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  if (has_avx512 && most == "avx512") return kAvx512Kernels;
  if (has_avx2 && most != "baseline") return kAvx2Kernels;
#endif
  return kBaselineKernels;
}

}  // namespace

const CpuKernelSet& cpu_kernels() {
  static const CpuKernelSet& chosen = choose();
  return chosen;
}

}  // namespace cairn::trainer
