// A layer of the decoder on the CPU as one autograd function: ATen's matrix products, kernels of ours between them, and
// a backward pass written by hand. It keeps only what is dear to compute (the residual streams, the products' outputs)
// and makes norms and activations again in backward; weights' gradients are added in place.
//
// Internal to the decoder. Throws what torch throws. A graph can be walked backward once.
#pragma once

#include <memory>

#include <ATen/core/Tensor.h>

#include "trainer/decoder_weights.h"
#include "trainer/plain_layers.h"

namespace cairn::trainer {

// fp32 residual stream [tokens, hidden] in and out. With `recompute` only `x` is kept.
at::Tensor cpu_layer(const std::shared_ptr<const LayerContext>& context, const LayerWeights& weights,
                     const at::Tensor& x, bool recompute);
// The final norm, fp32 in, compute type out; differentiable.
at::Tensor cpu_final_norm(const at::Tensor& x, const Weight& weight, double eps, at::ScalarType type);

}  // namespace cairn::trainer
