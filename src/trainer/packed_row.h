// A row as the decoder computes with it: tensors on the model's device, without what cannot change the loss.
//
// Internal to the decoder.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "base/result.h"
#include "dataset/row_source.h"
#include "trainer/decoder_spec.h"

namespace cairn::trainer {

struct PackedRow {
  at::Tensor ids;               // int64 [tokens]
  at::Tensor positions;         // int64 [tokens], from 0 in each sequence
  at::Tensor counted;           // int64 [count]: the tokens whose target counts
  at::Tensor targets;           // int64 [count]: their targets
  std::vector<int64_t> starts;  // of each sequence, and the number of tokens
  int64_t longest = 0;          // tokens of the longest sequence

  int64_t tokens() const { return starts.back(); }
  int64_t count() const { return counted.size(0); }
  size_t sequences() const { return starts.size() - 1; }
  bool equal_lengths() const { return static_cast<int64_t>(sequences()) * longest == tokens(); }
};

// With `for_loss` each sequence ends at its last target that counts: attention is causal, so what follows, padding
// above all, is work for nothing. data_invalid when the vectors disagree or an id is not below vocab_size.
Result<PackedRow> pack_row(const dataset::Row& row, const DecoderSpec& spec, c10::Device device, bool for_loss);

}  // namespace cairn::trainer
