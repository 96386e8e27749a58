#include "trainer/adamw_kernel.h"

#include <cmath>

namespace cairn::trainer {
namespace {

[[gnu::always_inline]] inline void run(const AdamWPass& pass, const float* __restrict gradient, float* __restrict weight,
                                       float* __restrict moment1, float* __restrict moment2, int64_t count) {
  const AdamWPass p = pass;
  const float keep1 = 1 - p.beta1;
  const float keep2 = 1 - p.beta2;
  for (int64_t i = 0; i < count; ++i) {
    float g = gradient[i] * p.gradient_scale;
    float m = moment1[i] + (g - moment1[i]) * keep1;
    float v = moment2[i] * p.beta2 + g * g * keep2;
    moment1[i] = m;
    moment2[i] = v;
    weight[i] = weight[i] * p.decay - p.step_size * m / (std::sqrt(v) / p.root_correction + p.eps);
  }
}

void run_plain(const AdamWPass& pass, const float* g, float* w, float* m, float* v, int64_t count) { run(pass, g, w, m, v, count); }

#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] void run_avx2(const AdamWPass& pass, const float* g, float* w, float* m, float* v, int64_t count) {
  run(pass, g, w, m, v, count);
}

#if defined(__clang__)
[[gnu::target("avx512f,avx512vl,avx512dq")]]
#else
[[gnu::target("avx512f,avx512vl,avx512dq,prefer-vector-width=512")]]
#endif
void run_avx512(const AdamWPass& pass, const float* g, float* w,
                                                                                      float* m, float* v, int64_t count) {
  run(pass, g, w, m, v, count);
}
#endif

using Run = void (*)(const AdamWPass&, const float*, float*, float*, float*, int64_t);

Run widest() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) return run_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return run_avx2;
#endif
  return run_plain;
}

}  // namespace

void adamw_pass(const AdamWPass& pass, const float* gradient, float* weight, float* moment1, float* moment2, int64_t count) {
  static const Run run_widest = widest();
  run_widest(pass, gradient, weight, moment1, moment2, count);
}

}  // namespace cairn::trainer
