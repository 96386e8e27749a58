// The arithmetic between matrix products, for CPU tensors: loops over rows that a compiler turns into vector code. They
// are compiled three times (baseline, AVX2, AVX-512) and chosen once by what the CPU has.
//
// Pure functions on memory the caller owns; each works on the rows it is given, in one thread. Sums inside a row depend
// on the vector width, so results differ in their last bits between CPUs, never between runs on one CPU. `Element` is
// float or bfloat16 (as its 16 bits); arithmetic is always fp32. A NaN in gives a NaN out.
#pragma once

#include <cstdint>

namespace cairn::trainer {

struct Bfloat16 {
  uint16_t bits;
};

// One set for each Element; `rows` are those at the pointers, one after another.
template <class Element>
struct CpuKernels {
  // y = x * rstd * w with rstd = 1 / sqrt(mean(x^2) + eps), which is kept. With `delta` x + delta is normed, and
  // written to `sum`.
  void (*norm_forward)(int64_t rows, int64_t size, const float* x, const Element* delta, const float* w, float eps,
                       float* sum, float* rstd, Element* y);
  // y again, from what was kept.
  void (*norm_again)(int64_t rows, int64_t size, const float* x, const float* rstd, const float* w, Element* y);
  // dx = residual + the gradient through the norm; dw += that of w.
  void (*norm_backward)(int64_t rows, int64_t size, const Element* dy, const float* x, const float* rstd,
                        const float* w, const float* residual, float* dx, float* dw);
  // out = x + delta.
  void (*add)(int64_t count, const float* x, const Element* delta, float* out);
  // to += from.
  void (*accumulate)(int64_t count, const Element* from, float* to);
  void (*narrow)(int64_t count, const float* from, Element* to);
  // y = silu(gate) * up; rows of gate_up are [gate; up].
  void (*swiglu_forward)(int64_t rows, int64_t size, const Element* gate_up, Element* y);
  // Rows of d_gate_up from dy, which becomes y again.
  void (*swiglu_backward)(int64_t rows, int64_t size, const Element* gate_up, Element* dy_then_y, Element* d_gate_up);
  // One head of `rows` tokens (rows of `in` are `stride` apart): norm by `w` unless null, rotation by cos and sin of
  // the row's position ([rows, size / 2]), times `scale`.
  void (*rope_forward)(int64_t rows, int64_t size, const Element* in, int64_t stride, const float* w, float eps,
                       const float* cos, const float* sin, float scale, float* out);
  // The gradient of the above: `dout` (changed) to rows of `din`; dw += that of w.
  void (*rope_backward)(int64_t rows, int64_t size, const Element* in, int64_t stride, const float* w, float eps,
                        const float* cos, const float* sin, float scale, float* dout, Element* din, float* dw);
  // Strided rows to packed fp32 and back.
  void (*gather)(int64_t rows, int64_t size, const Element* in, int64_t stride, float* out);
  void (*scatter)(int64_t rows, int64_t size, const float* in, Element* out, int64_t stride);
  // The sum of -log softmax(row)[target]; with `scale` != 0 the rows become scale times its gradient.
  double (*cross_entropy)(int64_t rows, int64_t size, Element* logits, const int64_t* targets, float scale);
};

// Attention's own, in fp32.
struct CpuAttentionKernels {
  // Row r of scores has `first` + r + 1 entries that count and `width` in all (`stride` apart): softmax of the former,
  // zero for the rest; log_sum[r] is its logarithm of the sum of exponentials.
  void (*softmax)(int64_t rows, int64_t first, int64_t width, int64_t stride, float* scores, float* log_sum);
  // scores becomes the probabilities p, dp becomes p * (dp - delta[r]); zero where nothing counts.
  void (*softmax_backward)(int64_t rows, int64_t first, int64_t width, int64_t stride, const float* log_sum,
                           const float* delta, float* scores, float* dp);
  // delta[r] = sum of a[r] * b[r].
  void (*row_products)(int64_t rows, int64_t size, const float* a, const float* b, float* delta);
};

struct CpuKernelSet {
  CpuKernels<float> fp32;
  CpuKernels<Bfloat16> bf16;
  CpuAttentionKernels attention;
  const char* name;  // "baseline", "avx2", "avx512"
};

// The best set for this CPU; CAIRN_CPU_KERNELS=baseline|avx2|avx512 in the environment asks for another that it can
// run.
const CpuKernelSet& cpu_kernels();

template <class Element>
const CpuKernels<Element>& cpu_kernels_of();
template <>
inline const CpuKernels<float>& cpu_kernels_of<float>() {
  return cpu_kernels().fp32;
}
template <>
inline const CpuKernels<Bfloat16>& cpu_kernels_of<Bfloat16>() {
  return cpu_kernels().bf16;
}

extern const CpuKernelSet kBaselineKernels;
#if defined(__x86_64__)
extern const CpuKernelSet kAvx2Kernels, kAvx512Kernels;
#endif

}  // namespace cairn::trainer
