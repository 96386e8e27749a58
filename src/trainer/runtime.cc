#include "trainer/runtime.h"

#include <dlfcn.h>
#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/version.h>

#include "base/whole_number.h"
#include "os/host.h"

namespace cairn::trainer {
namespace {

constexpr int kThreadsMax = 1024;

// The first of OMP_NUM_THREADS, a list with a number for each level of nesting; 0 when it says nothing.
int threads_of_environment() {
  const char* wish = std::getenv("OMP_NUM_THREADS");
  if (wish == nullptr) return 0;
  std::string_view first(wish);
  std::optional<int> threads = whole_number<int>(first.substr(0, first.find(',')));
  return threads && *threads > 0 && *threads <= kThreadsMax ? *threads : 0;
}

// The library behind libblas.so.3, chosen by Debian's alternatives: the reference one is 50 times slower than OpenBLAS,
// and OpenBLAS on its own pthreads fights with torch's OpenMP threads.
std::string blas_library() {
  void* symbol = dlsym(RTLD_DEFAULT, "sgemm_");
  Dl_info info;
  if (symbol == nullptr || dladdr(symbol, &info) == 0 || info.dli_fname == nullptr) return "built into libtorch";
  char* real = realpath(info.dli_fname, nullptr);
  std::string path = real != nullptr ? real : info.dli_fname;
  std::free(real);
  return path;
}

// Only this text tells it, in all versions.
std::string cpu_capability() {
  constexpr std::string_view kLabel = "CPU capability usage: ";
  std::string config = at::show_config();
  size_t at = config.find(kLabel);
  if (at == std::string::npos) return "unknown";
  at += kLabel.size();
  return config.substr(at, config.find('\n', at) - at);
}

void warn_of_slow_blas(RuntimeFacts& facts) {
  if (facts.blas == "built into libtorch" || facts.blas.find("openblas-openmp") != std::string::npos) return;
  if (dlsym(RTLD_DEFAULT, "openblas_get_parallel") != nullptr) {
    using Parallel = int (*)();
    if (reinterpret_cast<Parallel>(dlsym(RTLD_DEFAULT, "openblas_get_parallel"))() == 2) return;  // 2: OpenMP
    facts.warnings.push_back("OpenBLAS uses threads of its own beside torch's (" + facts.blas +
                             "): apt install libopenblas0-openmp");
    return;
  }
  if (facts.blas.find("mkl") != std::string::npos) return;
  facts.warnings.push_back("matrix products use a slow BLAS (" + facts.blas + "): apt install libopenblas0-openmp");
}

}  // namespace

bool cpu_has_bfloat16() {
#if defined(__x86_64__)
  // Leaf 7: AVX512-BF16 is subleaf 1 EAX bit 5, AMX-BF16 subleaf 0 EDX bit 22.
  unsigned eax = 7, ebx = 0, ecx = 1, edx = 0;
  __asm__("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
  bool avx512_bf16 = (eax >> 5) & 1;
  eax = 7, ecx = 0;
  __asm__("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
  bool amx_bf16 = (edx >> 22) & 1;
  return __builtin_cpu_supports("avx512f") != 0 && (avx512_bf16 || amx_bf16);
#else
  return false;
#endif
}

RuntimeFacts set_up_runtime(const RuntimeSettings& settings) {
  RuntimeFacts facts;
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 2147483647);
  mallopt(M_TOP_PAD, 64 << 20);
#if defined(__x86_64__)
  // ATen keeps to AVX2 unless told. It reads this once, at its first kernel.
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq")) {
    setenv("ATEN_CPU_CAPABILITY", "avx512", 0);
  }
#endif
  facts.threads = settings.threads;
  if (facts.threads <= 0) facts.threads = threads_of_environment();
  if (facts.threads <= 0) facts.threads = std::max(1, static_cast<int>(os::usable_cpus()) / std::max(1, settings.processes));
  at::set_num_threads(facts.threads);
  at::globalContext().setDeterministicAlgorithms(false, false);
  if (settings.deterministic) {
    at::globalContext().setDeterministicCuDNN(true);
    at::globalContext().setBenchmarkCuDNN(false);
  }
  facts.torch_version = TORCH_VERSION;
  facts.cpu_capability = cpu_capability();
  facts.blas = blas_library();
  facts.cpu_bfloat16 = cpu_has_bfloat16();
  warn_of_slow_blas(facts);
  return facts;
}

}  // namespace cairn::trainer
