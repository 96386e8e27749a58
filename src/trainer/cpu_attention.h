// Causal attention on the CPU as one operation: per-head norms of q and k, rotation, scores, softmax, mixing; sequences
// of a row apart. Scores exist for a block of queries of one head at a time, so memory grows with the length, not with
// its square. Arithmetic is fp32 for both compute types. Parallel over heads and sequences; the same result for the
// same number of threads.
//
// Internal to the decoder. Throws what torch throws.
#pragma once

#include <ATen/core/Tensor.h>

#include "trainer/decoder_weights.h"
#include "trainer/plain_layers.h"

namespace cairn::trainer {

struct AttentionResult {
  at::Tensor out;      // compute type [tokens, heads * head_dim]
  at::Tensor log_sum;  // fp32 [heads, tokens]: of each query's exponentials
};

// qkv: compute type [tokens, (heads + 2 kv_heads) * head_dim], before norms and rotation.
AttentionResult cpu_attention_forward(const LayerContext& context, const LayerWeights& weights, const at::Tensor& qkv);
// The gradient of qkv; adds to those of the two norms.
at::Tensor cpu_attention_backward(const LayerContext& context, const LayerWeights& weights, const at::Tensor& qkv,
                                  const AttentionResult& result, const at::Tensor& dout);

}  // namespace cairn::trainer
