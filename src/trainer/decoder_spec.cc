#include "trainer/decoder_spec.h"

#include <cmath>
#include <initializer_list>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "codec/json_depth.h"

namespace cairn::trainer {
namespace {

using nlohmann::json;

// Reads one config.json; the first error stays.
class SpecReader {
 public:
  SpecReader(const json& object, const std::string& name) : object_(object), name_(name) {}

  // `fallback` < 0: the key must be there.
  int64_t size(const char* key, int64_t fallback, int64_t max) {
    const json* value = find(key);
    if (value == nullptr) {
      if (fallback < 0) fail(fmt::format("'{}' is missing", key));
      return fallback;
    }
    if (!value->is_number_integer() || value->get<int64_t>() < 1 || value->get<int64_t>() > max ||
        (value->is_number_unsigned() && value->get<uint64_t>() > static_cast<uint64_t>(max))) {
      fail(fmt::format("'{}' must be a whole number from 1 to {}", key, max));
      return 1;
    }
    return value->get<int64_t>();
  }

  double number(const json& in, const char* key, double fallback, double min, double max) {
    auto at = in.find(key);
    if (at == in.end() || at->is_null()) return fallback;
    double value = at->is_number() ? at->get<double>() : std::nan("");
    if (!(value >= min && value <= max)) {
      fail(fmt::format("'{}' must be a number from {} to {}", key, min, max));
      return fallback;
    }
    return value;
  }

  bool flag(const char* key, bool fallback) {
    const json* value = find(key);
    if (value == nullptr) return fallback;
    if (!value->is_boolean()) {
      fail(fmt::format("'{}' must be true or false", key));
      return fallback;
    }
    return value->get<bool>();
  }

  std::string text(const json& in, const char* key) {
    auto at = in.find(key);
    if (at == in.end() || at->is_null()) return {};
    if (!at->is_string()) {
      fail(fmt::format("'{}' must be a string", key));
      return {};
    }
    return at->get<std::string>();
  }

  // Absent and null are the same.
  const json* find(const char* key) const {
    auto at = object_.find(key);
    return at == object_.end() || at->is_null() ? nullptr : &*at;
  }

  void fail(const std::string& what) { set(Code::kConfigInvalid, what); }
  void refuse(const std::string& what) { set(Code::kConfigUnsupported, what + " is not supported"); }
  Status status() const { return error_ ? Status(*error_) : ok(); }

 private:
  void set(Code code, const std::string& what) {
    if (!error_) error_ = Error(code, fmt::format("{}: {}", name_, what));
  }

  const json& object_;
  const std::string& name_;
  std::optional<Error> error_;
};

void read_architecture(SpecReader& reader, const json& object, DecoderSpec& spec) {
  std::string type = reader.text(object, "model_type");
  if (type == "qwen3") {
    spec.architecture = Architecture::kQwen3;
  } else if (type == "llama") {
    spec.architecture = Architecture::kLlama;
  } else if (type.empty()) {
    reader.fail("'model_type' is missing");
  } else {
    reader.refuse(fmt::format("model_type '{}' (qwen3 and llama are)", type.substr(0, 64)));
  }
  const json* architectures = reader.find("architectures");
  if (architectures == nullptr) return;
  const char* expected = spec.architecture == Architecture::kQwen3 ? "Qwen3ForCausalLM" : "LlamaForCausalLM";
  if (!architectures->is_array() || architectures->empty() || !(*architectures)[0].is_string()) {
    reader.fail("'architectures' must be a list of strings");
  } else if ((*architectures)[0].get_ref<const std::string&>() != expected) {
    reader.refuse(fmt::format("architecture '{}' ({} is, for model_type '{}')",
                              (*architectures)[0].get_ref<const std::string&>().substr(0, 64), expected, type));
  }
}

void read_rope(SpecReader& reader, const json& object, DecoderSpec& spec) {
  spec.rope_theta = reader.number(object, "rope_theta", 10000, 1, 1e12);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const json* rope = reader.find(key);
    if (rope == nullptr) continue;
    if (!rope->is_object()) {
      reader.fail(fmt::format("'{}' must be an object", key));
      continue;
    }
    std::string type = reader.text(*rope, "rope_type");
    if (type.empty()) type = reader.text(*rope, "type");
    if (!type.empty() && type != "default") reader.refuse(fmt::format("'{}' of type '{}'", key, type.substr(0, 64)));
    if (type.empty() && rope->contains("factor")) reader.refuse(fmt::format("'{}' with a factor", key));
    spec.rope_theta = reader.number(*rope, "rope_theta", spec.rope_theta, 1, 1e12);
    if (reader.number(*rope, "partial_rotary_factor", 1, 0, 1) != 1) reader.refuse("'partial_rotary_factor' below 1");
  }
  if (reader.number(object, "partial_rotary_factor", 1, 0, 1) != 1) reader.refuse("'partial_rotary_factor' below 1");
}

void refuse_what_is_not_built(SpecReader& reader, const json& object) {
  if (reader.flag("use_sliding_window", false)) reader.refuse("'use_sliding_window'");
  if (const json* types = reader.find("layer_types")) {
    if (!types->is_array()) reader.fail("'layer_types' must be a list");
    for (const json& type : *types) {
      if (!type.is_string()) {
        reader.fail("'layer_types' must be a list of strings");
      } else if (type.get_ref<const std::string&>() != "full_attention") {
        reader.refuse(fmt::format("layer type '{}'", type.get_ref<const std::string&>().substr(0, 64)));
      }
    }
  }
  for (const char* key :
       {"quantization_config", "num_experts", "num_local_experts", "n_routed_experts", "vision_config"}) {
    if (reader.find(key) != nullptr) reader.refuse(fmt::format("'{}'", key));
  }
  std::string activation = reader.text(object, "hidden_act");
  if (!activation.empty() && activation != "silu") {
    reader.refuse(fmt::format("hidden_act '{}' (silu is)", activation.substr(0, 64)));
  }
  if (reader.number(object, "attention_dropout", 0, 0, 1) != 0) reader.refuse("'attention_dropout' above 0");
}

void read_sizes(SpecReader& reader, DecoderSpec& spec) {
  bool qwen3 = spec.architecture == Architecture::kQwen3;
  spec.vocab_size = reader.size("vocab_size", -1, 1 << 24);
  spec.hidden_size = reader.size("hidden_size", -1, 1 << 17);
  spec.intermediate_size = reader.size("intermediate_size", -1, 1 << 20);
  spec.num_layers = reader.size("num_hidden_layers", -1, 1024);
  spec.num_heads = reader.size("num_attention_heads", -1, 4096);
  spec.num_kv_heads = reader.size("num_key_value_heads", qwen3 ? 32 : spec.num_heads, 4096);
  if (!reader.status()) return;
  spec.head_dim = reader.size("head_dim", qwen3 ? 128 : std::max<int64_t>(1, spec.hidden_size / spec.num_heads), 4096);
  spec.max_position_embeddings = reader.size("max_position_embeddings", qwen3 ? 32768 : 2048, 1 << 27);
  if (spec.num_heads % spec.num_kv_heads != 0) {
    reader.fail(fmt::format("'num_key_value_heads' ({}) must divide 'num_attention_heads' ({})", spec.num_kv_heads,
                            spec.num_heads));
  }
  if (spec.head_dim % 2 != 0) reader.fail(fmt::format("'head_dim' ({}) must be even", spec.head_dim));
}

void read_token_ids(SpecReader& reader, DecoderSpec& spec) {
  auto read = [&](const json& value, const char* key) {
    if (!value.is_number_integer() || value.get<int64_t>() < 0 || value.get<int64_t>() >= spec.vocab_size) {
      reader.fail(fmt::format("'{}' must be an id below 'vocab_size' ({})", key, spec.vocab_size));
      return int64_t{0};
    }
    return value.get<int64_t>();
  };
  if (const json* bos = reader.find("bos_token_id")) spec.bos_token_id = read(*bos, "bos_token_id");
  const json* eos = reader.find("eos_token_id");
  if (eos == nullptr) return;
  if (!eos->is_array()) {
    spec.eos_token_ids = {read(*eos, "eos_token_id")};
    return;
  }
  for (const json& id : *eos) spec.eos_token_ids.push_back(read(id, "eos_token_id"));
}

}  // namespace

int64_t ParameterSpec::size() const {
  int64_t size = 1;
  for (int64_t dimension : shape) size *= dimension;
  return size;
}

Result<DecoderSpec> parse_decoder_spec(std::string_view text, const std::string& name) {
  if (text.size() > kModelConfigBytesMax) {
    return Error(Code::kLimitExceeded, fmt::format("{} has {} bytes, more than a model's config may have ({})", name,
                                                   text.size(), kModelConfigBytesMax));
  }
  // The text is kept, and printed again with other values in it.
  if (codec::json_deeper_than(text, kModelConfigDepthMax)) {
    return Error(Code::kConfigInvalid, fmt::format("{}: lists and objects stand within each other more than {} deep", name, kModelConfigDepthMax));
  }
  json object = json::parse(text.begin(), text.end(), nullptr, false);
  if (!object.is_object()) return Error(Code::kConfigInvalid, fmt::format("{}: not a JSON object", name));
  DecoderSpec spec;
  SpecReader reader(object, name);
  read_architecture(reader, object, spec);
  CAIRN_CHECK_OK(reader.status());
  read_sizes(reader, spec);
  CAIRN_CHECK_OK(reader.status());
  read_rope(reader, object, spec);
  refuse_what_is_not_built(reader, object);
  read_token_ids(reader, spec);
  spec.rms_norm_eps = reader.number(object, "rms_norm_eps", 1e-6, 1e-20, 1);
  spec.initializer_range = reader.number(object, "initializer_range", 0.02, 0, 10);
  spec.tie_word_embeddings = reader.flag("tie_word_embeddings", false);
  spec.attention_bias = reader.flag("attention_bias", false);
  spec.mlp_bias = spec.architecture == Architecture::kLlama && reader.flag("mlp_bias", false);
  CAIRN_CHECK_OK(reader.status());
  spec.json = std::string(text);
  return spec;
}

std::vector<ParameterSpec> parameter_specs(const DecoderSpec& spec) {
  using Kind = ParameterSpec::Kind;
  std::vector<ParameterSpec> all;
  const int64_t hidden = spec.hidden_size, inner = spec.intermediate_size;
  const int64_t q = spec.num_heads * spec.head_dim, kv = spec.num_kv_heads * spec.head_dim;
  all.push_back({"model.embed_tokens.weight", {spec.vocab_size, hidden}, Kind::kMatrix});
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) {
    std::string prefix = fmt::format("model.layers.{}.", layer);
    // Matrices that multiply the same input stand side by side, so that one product serves them; so do their biases.
    struct Linear {
      const char* name;
      int64_t out;
    };
    auto linears = [&](std::initializer_list<Linear> group, int64_t in, bool bias) {
      for (const Linear& one : group) all.push_back({prefix + one.name + ".weight", {one.out, in}, Kind::kMatrix});
      if (!bias) return;
      for (const Linear& one : group) all.push_back({prefix + one.name + ".bias", {one.out}, Kind::kBias});
    };
    auto norm = [&](const char* name, int64_t size) {
      all.push_back({prefix + name + ".weight", {size}, Kind::kNorm});
    };
    norm("input_layernorm", hidden);
    linears({{"self_attn.q_proj", q}, {"self_attn.k_proj", kv}, {"self_attn.v_proj", kv}}, hidden, spec.attention_bias);
    linears({{"self_attn.o_proj", hidden}}, q, spec.attention_bias);
    if (spec.qk_norm()) {
      norm("self_attn.q_norm", spec.head_dim);
      norm("self_attn.k_norm", spec.head_dim);
    }
    norm("post_attention_layernorm", hidden);
    linears({{"mlp.gate_proj", inner}, {"mlp.up_proj", inner}}, hidden, spec.mlp_bias);
    linears({{"mlp.down_proj", hidden}}, inner, spec.mlp_bias);
  }
  all.push_back({"model.norm.weight", {hidden}, Kind::kNorm});
  if (!spec.tie_word_embeddings) all.push_back({"lm_head.weight", {spec.vocab_size, hidden}, Kind::kMatrix});
  return all;
}

int64_t parameter_count(const DecoderSpec& spec) {
  int64_t count = 0;
  for (const ParameterSpec& parameter : parameter_specs(spec)) count += parameter.size();
  return count;
}

double flops_per_token(const DecoderSpec& spec, int64_t sequence_length) {
  double matrices =
      static_cast<double>(spec.vocab_size) * static_cast<double>(spec.hidden_size);  // the head, tied or not
  for (const ParameterSpec& parameter : parameter_specs(spec)) {
    if (parameter.name.find(".layers.") != std::string::npos && parameter.kind == ParameterSpec::Kind::kMatrix) {
      matrices += static_cast<double>(parameter.size());
    }
  }
  return 6 * matrices + 12 * static_cast<double>(spec.num_layers * spec.num_heads * spec.head_dim * sequence_length);
}

}  // namespace cairn::trainer
