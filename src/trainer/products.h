// Small pieces of backward passes that add to fp32 gradients in place, and the cross-entropy of logits. CPU tensors go
// to kernels of ours, others to ATen.
//
// Internal to the decoder. Throws what torch throws. Tensors are contiguous unless said otherwise.
#pragma once

#include <ATen/core/Tensor.h>

namespace cairn::trainer {

// grad += dy^T x. dy [n, out], x [n, in], of one type; rows may be strided.
void add_product(const at::Tensor& grad, const at::Tensor& dy, const at::Tensor& x);
// grad[i] += sum over rows of dy.
void add_row_sum(const at::Tensor& grad, const at::Tensor& dy);
// grad[ids[i]] += rows[i], in the order of i.
void add_rows(const at::Tensor& grad, const at::Tensor& ids, const at::Tensor& rows);
// The sum of -log softmax(logits[i])[targets[i]]. With `scale` != 0 the logits become the gradient of scale times that
// sum.
double cross_entropy_rows(at::Tensor& logits, const at::Tensor& targets, double scale);

}  // namespace cairn::trainer
