// The layers of a decoder written with ATen's own differentiable operations, for any device. Devices without kernels of
// ours compute with these, and the tests hold the kernels to them.
//
// Internal to the decoder. Throws what torch throws.
#pragma once

#include <memory>

#include <ATen/core/Tensor.h>

#include "trainer/decoder_weights.h"
#include "trainer/packed_row.h"

namespace cairn::trainer {

// cos and sin of the rotary angles, fp32 [positions, head_dim / 2], for positions from 0.
struct RopeTable {
  at::Tensor cos, sin;
};
RopeTable make_rope_table(const DecoderSpec& spec, int64_t positions, c10::Device device);

// What all layers share in one pass.
struct LayerContext {
  DecoderSpec spec;
  PackedRow row;
  RopeTable rope;  // at least row.longest positions
  at::ScalarType compute_type = at::kFloat;
};

// fp32 in, compute type out.
at::Tensor plain_rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);
// [tokens, heads, head_dim], rotated by each token's position.
at::Tensor plain_rope(const at::Tensor& x, const RopeTable& rope, const at::Tensor& positions);
// q [tokens, heads, head_dim], k and v [tokens, kv heads, head_dim]; causal within each sequence; [tokens, heads *
// head_dim].
at::Tensor plain_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const PackedRow& row);
// The whole layer: fp32 residual stream [tokens, hidden] in and out.
at::Tensor plain_layer(const LayerContext& context, const LayerWeights& weights, const at::Tensor& x);
// The same; only `x` is kept, and backward computes the layer again.
at::Tensor recomputed_plain_layer(const std::shared_ptr<const LayerContext>& context, const LayerWeights& weights,
                                  const at::Tensor& x);

}  // namespace cairn::trainer
