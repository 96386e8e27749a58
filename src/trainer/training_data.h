// The rows a config names, as RowSources that agree with the model and its tokenizer.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "config/training_config.h"
#include "dataset/row_source.h"
#include "trainer/decoder_spec.h"

namespace cairn::trainer {

struct TrainingRows {
  std::unique_ptr<dataset::RowSource> train;
  std::unique_ptr<dataset::RowSource> validation;  // null without [val]
  int64_t validation_rows_max = 0;                 // 0: all of an epoch
  std::vector<std::string> warnings;
};

// `volume_root` is where the volume lies on this machine. data_missing_on_volume, data_invalid, config_invalid name what is wrong
// with data or tokenizer.
// `warn` hears of what the rows skip while they are read.
Result<TrainingRows> open_rows(const config::TrainingConfig& config, const DecoderSpec& spec, const std::string& volume_root,
                               std::function<void(const std::string&)> warn);

// Where the tokenizer's files lie on this machine: [tokenizer] name, else the model's folder; empty for the smoke model.
Result<std::string> tokenizer_folder(const config::TrainingConfig& config, const std::string& volume_root);

}  // namespace cairn::trainer
