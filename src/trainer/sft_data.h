// The fine-tuning and fake data of a config as rows; needs no torch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "config/training_config.h"
#include "dataset/sft_rows.h"

namespace cairn::trainer {

struct SftDataRequest {
  const config::TrainingConfig& config;
  const config::DataSettings& data;  // config.data or config.val->data
  bool validation = false;           // an epoch is a fixed list of rows
  uint32_t vocab_size = 0;           // of the model; 0: not known
  int64_t positions_max = 0;         // its max_position_embeddings; 0: not known
  std::string volume_root;
  std::function<void(const std::string&)> warn;  // of skipped samples, while rows are made; may be empty
};

// The tokenizer that [tokenizer] or [model] names. data_missing_on_volume when there is no tokenizer.json.
Result<std::shared_ptr<const dataset::Tokenizer>> open_tokenizer(const config::TrainingConfig& config, const std::string& volume_root);

// REQUIRES: data.kind == kSft. Errors as SftRows::open.
Result<std::unique_ptr<dataset::SftRows>> open_sft_rows(const SftDataRequest& request,
                                                        std::shared_ptr<const dataset::Tokenizer> tokenizer);

// REQUIRES: data.kind == kFake. With `validation_rows` > 0 an epoch has so many rows.
Result<std::unique_ptr<dataset::RowSource>> open_fake_rows(const config::DataSettings& data, uint32_t vocab_size,
                                                           int64_t validation_rows = 0);

}  // namespace cairn::trainer
