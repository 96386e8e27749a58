// What a dry run says about the config of the built-in trainer: one line each for model, data, batch, optimizer, schedule,
// validation, checkpoints and what is read from the volume. Pure.
#pragma once

#include <string>

#include "config/training_config.h"

namespace cairn::cli {

std::string training_text(const config::TrainingConfig& config);

}  // namespace cairn::cli
