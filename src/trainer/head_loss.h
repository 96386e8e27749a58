// The first and the last step of a decoder: the embedding of ids, and the summed cross-entropy of the language-model
// head in chunks, so that no more than a chunk of logits exists at any time. Both add to their weight's gradient
// directly.
//
// Internal to the decoder. Throws what torch throws.
#pragma once

#include <ATen/core/Tensor.h>

#include "trainer/decoder_weights.h"

namespace cairn::trainer {

// fp32 [tokens, hidden]; differentiable.
at::Tensor embed(const Weight& embedding, const at::Tensor& ids);

struct HeadSettings {
  int64_t token_chunk_size = 0;  // most tokens whose logits exist at once, 0: no such limit
  // The gradients are computed at once, in forward, for a backward from 1 (no other): saves computing the logits again.
  bool eager_gradients = false;
  double scale = 1;  // of the gradients, when eager
};

// `h` in the compute type [count, hidden], targets int64 [count]; fp32 scalar, differentiable, not scaled.
at::Tensor head_loss(const at::Tensor& h, const Weight& head, const at::Tensor& targets, const HeadSettings& settings);

// Tokens of one chunk: what the settings allow, but logits of some 64 MiB at most on a CPU and 1 GiB elsewhere (at
// least 128 tokens).
int64_t head_chunk_tokens(int64_t token_chunk_size, int64_t vocab_size, int64_t element_bytes, bool on_cpu);

}  // namespace cairn::trainer
