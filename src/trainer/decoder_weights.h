// The parameters of a decoder as they lie in memory: one flat fp32 tensor with all values, one with all gradients, and
// for bf16 one with rounded copies, of all or (plain layers round for themselves) of the head; every weight is a view of
// these. Matrices that multiply the same input are one
// weight here.
//
// Internal to the decoder. Functions may throw what torch throws.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trainer/decoder.h"

namespace cairn::trainer {

// Undefined tensors: the model has no such weight.
struct Weight {
  at::Tensor value;    // fp32 view
  at::Tensor compute;  // the same in the compute type; undefined where only plain layers read the weight
  at::Tensor grad;     // fp32 view, which backward adds to
  at::Tensor leaf;     // what autograd knows: value and grad as one variable

  bool defined() const { return value.defined(); }
};

struct LayerWeights {
  Weight input_norm, post_norm, q_norm, k_norm;
  Weight qkv, qkv_bias, o, o_bias;                // [q; k; v]
  Weight gate_up, gate_up_bias, down, down_bias;  // [gate; up]
};

class DecoderWeights {
 public:
  DecoderWeights(const DecoderSpec& spec, const DecoderOptions& options);

  const std::vector<NamedParameter>& named_parameters() const { return named_; }
  const at::Tensor& flat_values() const { return values_; }
  const at::Tensor& flat_gradients() const { return gradients_; }

  const Weight& embedding() const { return embedding_; }
  const Weight& final_norm() const { return final_norm_; }
  const Weight& head() const { return head_; }  // the embedding when tied
  const std::vector<LayerWeights>& layers() const { return layers_; }

  void mark_changed() { copies_are_stale_ = true; }
  // Brings the copies in the compute type up to date.
  void renew_copies();
  void init_random(const DecoderSpec& spec, uint64_t seed);

 private:
  // The number of parameters when there is none of that name.
  size_t index_of(std::string_view name) const;
  // The parameters `names`, which lie side by side, as one weight; undefined when the model has none of them.
  Weight weight(const std::vector<std::string>& names) const;

  std::vector<ParameterSpec> specs_;
  std::vector<int64_t> offsets_;  // of each parameter in the flat tensors
  at::Tensor values_, gradients_;
  at::Tensor copies_;  // of the values from copied_from_ on; the values themselves when fp32 is the compute type
  int64_t copied_from_ = 0;
  std::vector<NamedParameter> named_;
  Weight embedding_, final_norm_, head_;
  std::vector<LayerWeights> layers_;
  bool copies_are_stale_ = true;
};

}  // namespace cairn::trainer
