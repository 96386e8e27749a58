// Checkpoints to and from the Hugging Face format: config.json, weights and the tokenizer's files, as other programs read them.
#pragma once

#include <string>

#include "base/result.h"

namespace cairn::trainer {

// From a complete checkpoint (…/step_N, or a folder with checkpoints, whose latest is taken), whose hashes are compared, into a new
// or empty folder. Weights as bf16 or fp32, in files of at most 5 GB, the index last. Returns the step.
Result<int64_t> export_checkpoint(const std::string& checkpoint, const std::string& out_folder, bool bfloat16);

// A model folder as the checkpoint …/step_N (taken from the name), to resume from with a new optimizer state and the data's
// beginning. file_exists when there is one.
Status import_model(const std::string& model_folder, const std::string& step_folder);

}  // namespace cairn::trainer
