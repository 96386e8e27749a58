// What a model is, without its weights: the architecture and sizes that config.json states, and the names and shapes of
// the tensors that follow from them. Qwen3 and Llama decoders; other architectures and features are refused by name.
//
// Pure values and functions; no torch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cairn::trainer {

inline constexpr size_t kModelConfigBytesMax = 1024 * 1024;  // of a config.json
inline constexpr size_t kModelConfigDepthMax = 64;           // of its lists and objects

enum class Architecture { kQwen3, kLlama };

struct DecoderSpec {
  Architecture architecture = Architecture::kQwen3;
  int64_t vocab_size = 0;  // rows of the embedding; may exceed the tokenizer's vocabulary
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;             // divides num_heads
  int64_t head_dim = 0;                 // even; num_heads * head_dim need not be hidden_size
  int64_t max_position_embeddings = 0;  // tokens
  double rope_theta = 10000;
  double rms_norm_eps = 1e-6;
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;
  bool attention_bias = false;  // of q, k, v and o
  bool mlp_bias = false;        // of gate, up and down (Llama only)
  std::optional<int64_t> bos_token_id;
  std::vector<int64_t> eos_token_ids;  // none, one or several
  std::string json;                    // the text it was read from

  bool qk_norm() const { return architecture == Architecture::kQwen3; }
};

struct ParameterSpec {
  enum class Kind { kMatrix, kNorm, kBias };
  std::string name;  // Hugging Face's
  std::vector<int64_t> shape;
  Kind kind = Kind::kMatrix;

  int64_t size() const;  // elements
};

// `name` is for messages. config_invalid: not JSON, a key missing, of the wrong type or out of bounds;
// config_unsupported: an architecture or a feature that is not built (rope scaling, sliding windows, experts,
// quantization), by its name.
Result<DecoderSpec> parse_decoder_spec(std::string_view json, const std::string& name);

// The tensors of the model in the order in which weights are drawn and stored. A tied lm_head is not among them.
std::vector<ParameterSpec> parameter_specs(const DecoderSpec& spec);
int64_t parameter_count(const DecoderSpec& spec);

// Multiplications and additions of one trained token (forward and backward), attention over `sequence_length` tokens
// included: 6 x (matrix parameters with lm_head, without the embedding) + 12 x layers x heads x head_dim x
// sequence_length.
double flops_per_token(const DecoderSpec& spec, int64_t sequence_length);

}  // namespace cairn::trainer
