#include "trainer/training_model.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "trainer/device_facts.h"
#include "trainer/model_files.h"

namespace cairn::trainer {
namespace {

// [model.debug] num_layers, written into the config.json that checkpoints and exports will carry.
Result<DecoderSpec> with_layers(const DecoderSpec& spec, int64_t layers, const std::string& name) {
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(spec.json, nullptr, false);
  if (!json.is_object()) return Error(Code::kConfigInvalid, name + " is not a JSON object");
  json["num_hidden_layers"] = layers;
  json.erase("layer_types");
  return parse_decoder_spec(json.dump(2), name);
}

Status check_length(const char* key, int64_t length, const DecoderSpec& spec) {
  if (length <= spec.max_position_embeddings) return ok();
  return Error(Code::kConfigInvalid, fmt::format("{} = {} is more than the model's max_position_embeddings = {}", key, length,
                                                 spec.max_position_embeddings),
               "lower it, or raise max_position_embeddings in the model's config.json");
}

}  // namespace

Result<DecoderSpec> training_spec(const config::TrainingConfig& config, const std::string& folder) {
  Result<DecoderSpec> spec = folder.empty() ? parse_decoder_spec(config::kSmokeModelConfig, "the smoke model's config.json")
                                            : load_decoder_spec(os::posix_file_system(), folder);
  if (!spec) return spec;
  if (config.model.num_layers > 0 && config.model.num_layers != spec->num_layers) {
    spec = with_layers(*spec, config.model.num_layers, folder + "/config.json");
    if (!spec) return spec;
  }
  if (config.model.seq_len) CAIRN_CHECK_OK(check_length("model.seq_len", *config.model.seq_len, *spec));
  CAIRN_CHECK_OK(check_length("data.seq_len", config.data.seq_len, *spec));
  if (config.val) CAIRN_CHECK_OK(check_length("val.data.seq_len", config.val->data.seq_len, *spec));
  return spec;
}

Result<bool> computes_bfloat16(const config::TrainingConfig& config, c10::Device device) {
  if (config.model.dtype == "float32") return false;
  bool native = has_bfloat16(device);
  if (config.model.dtype == "bfloat16" && !native) {
    const char* what = device.is_cuda() ? "GPU" : "CPU";
    return Error(Code::kConfigUnsupported, fmt::format("model.dtype = \"bfloat16\", but this {} multiplies no bf16", what),
                 "set model.dtype = \"auto\" or \"float32\"");
  }
  return native;
}

Result<std::unique_ptr<Decoder>> make_model(const config::TrainingConfig& config, const DecoderSpec& spec, c10::Device device,
                                            bool bfloat16) {
  DecoderOptions options;
  options.device = device;
  options.bfloat16 = bfloat16;
  if (config.model.activation_checkpointing) options.activation_checkpointing_freq = config.model.activation_checkpointing_freq;
  options.head_token_chunk_size = config.model.head_token_chunk_size;
  return Decoder::create(spec, options);
}

Status first_weights(const config::TrainingConfig& config, const std::string& folder, Decoder& model) {
  if (config.model.random_init || folder.empty()) return model.init_random(config.seed);
  Status loaded = load_weights(os::posix_file_system(), folder, model);
  if (!loaded && loaded.error().hint().empty()) loaded.error().with_hint("copy the model's folder to the volume again");
  return loaded;
}

}  // namespace cairn::trainer
