#include "trainer/decoder_spec.h"

#include <fstream>
#include <iterator>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "trainer/safetensors.h"

namespace cairn::trainer {
namespace {

const std::string kGolden = std::string(CAIRN_SOURCE_DIR) + "/tests/golden/decoder/";

std::string read(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

// Qwen3-0.6B's.
nlohmann::json qwen3() {
  return {{"architectures", {"Qwen3ForCausalLM"}},
          {"attention_bias", false},
          {"attention_dropout", 0.0},
          {"bos_token_id", 151643},
          {"eos_token_id", 151645},
          {"head_dim", 128},
          {"hidden_act", "silu"},
          {"hidden_size", 1024},
          {"initializer_range", 0.02},
          {"intermediate_size", 3072},
          {"max_position_embeddings", 40960},
          {"max_window_layers", 28},
          {"model_type", "qwen3"},
          {"num_attention_heads", 16},
          {"num_hidden_layers", 28},
          {"num_key_value_heads", 8},
          {"rms_norm_eps", 1e-06},
          {"rope_scaling", nullptr},
          {"rope_theta", 1000000},
          {"sliding_window", nullptr},
          {"tie_word_embeddings", true},
          {"torch_dtype", "bfloat16"},
          {"use_cache", true},
          {"use_sliding_window", false},
          {"vocab_size", 151936}};
}

Error refusal(const nlohmann::json& config) {
  auto spec = parse_decoder_spec(config.dump(), "m/config.json");
  EXPECT_FALSE(spec) << config.dump();
  return spec ? Error(Code::kInternal, "accepted") : spec.error();
}

TEST(DecoderSpec, ReadsQwen3) {
  auto spec = parse_decoder_spec(qwen3().dump(), "config.json");
  ASSERT_TRUE(spec) << spec.error().to_string();
  EXPECT_TRUE(spec->qk_norm());
  EXPECT_EQ(spec->head_dim, 128);
  EXPECT_EQ(spec->rope_theta, 1e6);
  EXPECT_EQ(spec->bos_token_id, 151643);
  EXPECT_EQ(spec->eos_token_ids, std::vector<int64_t>{151645});
  EXPECT_EQ(parameter_count(*spec), 596049920);  // as the model card says: 0.6 B, 0.44 B without embedding
  EXPECT_EQ(parameter_specs(*spec).size(), 2u + 28 * 11);
}

TEST(DecoderSpec, RopeParametersOfNewerFiles) {
  auto config = qwen3();
  config.erase("rope_theta");
  config.erase("rope_scaling");
  config["rope_parameters"] = {{"rope_theta", 5e5}, {"rope_type", "default"}};
  config["eos_token_id"] = {1, 2};
  auto spec = parse_decoder_spec(config.dump(), "config.json");
  ASSERT_TRUE(spec) << spec.error().to_string();
  EXPECT_EQ(spec->rope_theta, 5e5);
  EXPECT_EQ(spec->eos_token_ids, (std::vector<int64_t>{1, 2}));
}

TEST(DecoderSpec, LlamaDefaults) {
  nlohmann::json config = {{"model_type", "llama"},   {"vocab_size", 100},      {"hidden_size", 64},
                           {"intermediate_size", 80}, {"num_hidden_layers", 2}, {"num_attention_heads", 4}};
  auto spec = parse_decoder_spec(config.dump(), "config.json");
  ASSERT_TRUE(spec) << spec.error().to_string();
  EXPECT_EQ(spec->architecture, Architecture::kLlama);
  EXPECT_EQ(spec->num_kv_heads, 4);
  EXPECT_EQ(spec->head_dim, 16);
  EXPECT_EQ(spec->rope_theta, 10000);
  EXPECT_FALSE(spec->tie_word_embeddings);
  EXPECT_FALSE(spec->qk_norm());
}

TEST(DecoderSpec, RefusesByName) {
  const std::vector<std::pair<nlohmann::json, std::string>> cases = {
      {{{"model_type", "gpt_oss"}}, "gpt_oss"},
      {{{"model_type", "qwen3_moe"}}, "qwen3_moe"},
      {{{"architectures", {"Qwen3ForSequenceClassification"}}}, "Qwen3ForSequenceClassification"},
      {{{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}}}}, "yarn"},
      {{{"rope_scaling", {{"type", "linear"}, {"factor", 4.0}}}}, "linear"},
      {{{"rope_scaling", {{"factor", 4.0}}}}, "factor"},
      {{{"rope_parameters", {{"rope_type", "llama3"}}}}, "llama3"},
      {{{"partial_rotary_factor", 0.5}}, "partial_rotary_factor"},
      {{{"use_sliding_window", true}}, "use_sliding_window"},
      {{{"layer_types", {"full_attention", "sliding_attention"}}}, "sliding_attention"},
      {{{"quantization_config", {{"quant_method", "fp8"}}}}, "quantization_config"},
      {{{"num_experts", 8}}, "num_experts"},
      {{{"hidden_act", "gelu"}}, "gelu"},
      {{{"attention_dropout", 0.1}}, "attention_dropout"}};
  for (const auto& [change, name] : cases) {
    auto config = qwen3();
    config.update(change);
    Error error = refusal(config);
    EXPECT_EQ(error.code(), Code::kConfigUnsupported) << error.message();
    EXPECT_NE(error.message().find(name), std::string::npos) << error.message();
    EXPECT_EQ(error.message().find("m/config.json"), 0u) << error.message();
  }
}

TEST(DecoderSpec, RefusesWrongValues) {
  const std::vector<std::pair<nlohmann::json, std::string>> cases = {
      {{{"vocab_size", 0}}, "vocab_size"},
      {{{"vocab_size", -1}}, "vocab_size"},
      {{{"vocab_size", 1.5}}, "vocab_size"},
      {{{"vocab_size", "10"}}, "vocab_size"},
      {{{"hidden_size", 1ull << 63}}, "hidden_size"},
      {{{"num_hidden_layers", nullptr}}, "num_hidden_layers"},
      {{{"num_key_value_heads", 3}}, "num_key_value_heads"},
      {{{"head_dim", 63}}, "head_dim"},
      {{{"rms_norm_eps", 0}}, "rms_norm_eps"},
      {{{"rope_theta", "x"}}, "rope_theta"},
      {{{"rope_scaling", 3}}, "rope_scaling"},
      {{{"tie_word_embeddings", 1}}, "tie_word_embeddings"},
      {{{"bos_token_id", 151936}}, "bos_token_id"},
      {{{"eos_token_id", {1, -1}}}, "eos_token_id"},
      {{{"architectures", nlohmann::json::array()}}, "architectures"},
      {{{"model_type", nullptr}}, "model_type"}};
  for (const auto& [change, name] : cases) {
    auto config = qwen3();
    config.update(change);
    Error error = refusal(config);
    EXPECT_EQ(error.code(), Code::kConfigInvalid) << error.message();
    EXPECT_NE(error.message().find(name), std::string::npos) << error.message();
  }
  EXPECT_FALSE(parse_decoder_spec("[1]", "x"));
  EXPECT_FALSE(parse_decoder_spec("", "x"));
  EXPECT_EQ(parse_decoder_spec(std::string(kModelConfigBytesMax + 1, ' '), "x").error().code(), Code::kLimitExceeded);
  // Who prints the text again goes as deep as it does.
  std::string deep = qwen3().dump();
  deep.back() = ',';
  Error error = parse_decoder_spec(deep + "\"a\":" + std::string(200'000, '[') + std::string(200'000, ']') + "}", "x").error();
  EXPECT_EQ(error.message(), "x: lists and objects stand within each other more than 64 deep");
  EXPECT_TRUE(parse_decoder_spec(deep + "\"a\":" + std::string(63, '[') + std::string(63, ']') + "}", "x"));
}

// Names and shapes are those that transformers wrote.
TEST(DecoderSpec, ParametersAreThoseOfTransformers) {
  for (const std::string name : {"qwen3_tied", "qwen3_untied", "llama", "llama_biased"}) {
    auto spec = parse_decoder_spec(read(kGolden + name + "/config.json"), name);
    ASSERT_TRUE(spec) << spec.error().to_string();
    auto file = SafetensorsFile::open(os::posix_file_system(), kGolden + name + "/model.safetensors");
    ASSERT_TRUE(file) << file.error().to_string();
    auto parameters = parameter_specs(*spec);
    EXPECT_EQ(parameters.size(), file->header().tensors.size()) << name;
    for (const ParameterSpec& parameter : parameters) {
      const TensorLayout* found = file->find(parameter.name);
      ASSERT_NE(found, nullptr) << parameter.name;
      EXPECT_EQ(found->shape, parameter.shape) << parameter.name;
    }
  }
}

TEST(DecoderSpec, FlopsCountTheHeadOnceAndNotTheEmbedding) {
  auto config = qwen3();
  auto tied = parse_decoder_spec(config.dump(), "x");
  config["tie_word_embeddings"] = false;
  auto untied = parse_decoder_spec(config.dump(), "x");
  EXPECT_EQ(flops_per_token(*tied, 100), flops_per_token(*untied, 100));
  EXPECT_EQ(flops_per_token(*tied, 100) - flops_per_token(*tied, 0), 12.0 * 28 * 16 * 128 * 100);
}

}  // namespace
}  // namespace cairn::trainer
