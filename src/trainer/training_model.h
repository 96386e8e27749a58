// The model a config names, as the loop wants it: its description, checked against the config, and its first weights.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "config/training_config.h"
#include "trainer/decoder.h"

namespace cairn::trainer {

// `folder` is the model's, or empty for the smoke model. config_invalid when a sequence would be longer than the model knows
// positions for.
Result<DecoderSpec> training_spec(const config::TrainingConfig& config, const std::string& folder);

// Whether matrix products are to be bf16: as the config says, or as the device likes. config_unsupported: asked of a CPU or GPU that
// would emulate it.
Result<bool> computes_bfloat16(const config::TrainingConfig& config, c10::Device device);

// Without weights.
Result<std::unique_ptr<Decoder>> make_model(const config::TrainingConfig& config, const DecoderSpec& spec, c10::Device device,
                                            bool bfloat16);
// Random ones, or those of the folder.
Status first_weights(const config::TrainingConfig& config, const std::string& folder, Decoder& model);

}  // namespace cairn::trainer
