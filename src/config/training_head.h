// The few settings of a training config that Cairn itself needs before an engine reads the file: which engine, which mode,
// which volume, which GPUs. Everything else in the file belongs to the engine and is not checked here, but a key that is one typing
// mistake away from these is refused.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace cairn::config {

struct TrainingHead {
  std::string engine;  // empty: the operator's default, else the built-in one
  std::string mode;    // "sft", "pretrain", or what the engine knows; may be empty
  std::string volume;  // name; empty: none named in the file
  std::string gpu_type;  // as --gpu-type; may be empty
};

// config_invalid with file and line.
Result<TrainingHead> read_training_head(std::string_view text, const std::string& file);

}  // namespace cairn::config
