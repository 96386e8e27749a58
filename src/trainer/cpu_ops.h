// The kernels of cpu_kernels.h on whole CPU tensors, in parallel over rows. Sums over rows (gradients of norms) are
// taken per thread and then in the order of threads: the same result for the same number of threads.
//
// Internal to the decoder. Tensors are contiguous; residual streams, norm weights and gradients fp32, the rest in the
// compute type. Throws what torch throws.
#pragma once

#include <ATen/core/Tensor.h>

#include "trainer/decoder_weights.h"

namespace cairn::trainer {

struct Normed {
  at::Tensor x;     // what was normed, fp32 [rows, size]
  at::Tensor rstd;  // fp32 [rows]
  at::Tensor y;     // compute type
};
// Norms x, or x + delta when delta is defined.
Normed cpu_norm(const at::Tensor& x, const at::Tensor& delta, const Weight& weight, double eps, at::ScalarType type);
at::Tensor cpu_norm_again(const at::Tensor& x, const at::Tensor& rstd, const Weight& weight, at::ScalarType type);
// residual + the gradient of x; adds to the weight's.
at::Tensor cpu_norm_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& rstd, const Weight& weight,
                             const at::Tensor& residual);

// silu(gate) * up of [gate; up] rows.
at::Tensor cpu_swiglu(const at::Tensor& gate_up);
// The gradient of gate_up; dy becomes the output again.
at::Tensor cpu_swiglu_backward(const at::Tensor& gate_up, at::Tensor& dy_then_y);

// x + delta, fp32.
at::Tensor cpu_add(const at::Tensor& x, const at::Tensor& delta);
// `x` itself when the type is fp32.
at::Tensor cpu_narrow(const at::Tensor& x, at::ScalarType type);
// to += from.
void cpu_accumulate(const at::Tensor& to, const at::Tensor& from);
// grad[ids[i]] += rows[i], in the order of i.
void cpu_add_rows(const at::Tensor& grad, const at::Tensor& ids, const at::Tensor& rows);
double cpu_cross_entropy(at::Tensor& logits, const at::Tensor& targets, double scale);

}  // namespace cairn::trainer
