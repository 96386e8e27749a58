#include "trainer/training_data.h"

#include <algorithm>

#include <fmt/format.h>

#include "dataset/pretrain_rows.h"
#include "dataset/tokenizer.h"
#include "trainer/end_token.h"
#include "trainer/sft_data.h"
#include "trainer/volume_paths.h"

namespace cairn::trainer {
namespace {

using config::DataKind;
using config::DataSettings;
using config::ValidationSettings;
using dataset::RowSource;

// What all sources of a run share.
struct Opening {
  const config::TrainingConfig& config;
  const DecoderSpec& spec;
  const std::string& volume_root;
  std::shared_ptr<const dataset::Tokenizer> tokenizer;  // null when there is none
  std::optional<uint32_t> separator_id;                 // that is to end each document of shards
  std::function<void(const std::string&)> warn;
  std::vector<std::string> warnings;
};

uint32_t vocabulary(const Opening& opening) { return static_cast<uint32_t>(opening.spec.vocab_size); }

Result<std::unique_ptr<RowSource>> open_shards(Opening& opening, const DataSettings& data, const ValidationSettings* validation) {
  dataset::PretrainRowsOptions options;
  for (const std::string& path : data.paths) {
    CAIRN_TRY(std::string folder, path_on_volume(opening.volume_root, path));
    options.paths.push_back(std::move(folder));
  }
  options.seq_len = data.seq_len;
  options.micro_batch_size = data.micro_batch_size;
  options.vocab_size = vocabulary(opening);
  options.shuffle = data.shuffle;
  options.seed = data.seed;
  options.separator_id = opening.separator_id;
  if (opening.tokenizer) {
    options.is_special = [tokenizer = opening.tokenizer](uint32_t id) { return tokenizer->is_special(id); };
  }
  if (validation != nullptr) {
    options.validation = true;
    options.num_samples = validation->num_samples;
  }
  CAIRN_TRY(std::unique_ptr<dataset::PretrainRows> rows, dataset::PretrainRows::open(options));
  for (const std::string& warning : rows->warnings()) opening.warnings.push_back(warning);
  return std::unique_ptr<RowSource>(std::move(rows));
}

Result<std::unique_ptr<RowSource>> open_conversations(Opening& opening, const DataSettings& data, bool validation) {
  SftDataRequest request{opening.config, data, validation, vocabulary(opening), opening.spec.max_position_embeddings, opening.volume_root,
                         opening.warn};
  CAIRN_TRY(std::unique_ptr<dataset::SftRows> rows, open_sft_rows(request, opening.tokenizer));
  for (const std::string& file : rows->left_aside()) {
    opening.warnings.push_back(fmt::format("{} belongs to another split and is not read", file));
  }
  return std::unique_ptr<RowSource>(std::move(rows));
}

Result<std::unique_ptr<RowSource>> open_one(Opening& opening, const DataSettings& data, const ValidationSettings* validation) {
  int64_t rows_a_step = std::max<int64_t>(1, data.batch_size / data.micro_batch_size);
  switch (data.kind) {
    case DataKind::kShards: return open_shards(opening, data, validation);
    case DataKind::kSft: return open_conversations(opening, data, validation != nullptr);
    case DataKind::kFake: return open_fake_rows(data, vocabulary(opening), validation != nullptr ? rows_a_step : 0);
  }
  return Error(Code::kInternal, "unknown kind of data");
}

// Shards are token ids already: there a tokenizer that lies beside the model is only compared with it, and tells what separates
// documents; one that cannot be read is no reason not to train.
Status load_tokenizer(Opening& opening) {
  CAIRN_TRY(std::string folder, tokenizer_folder(opening.config, opening.volume_root));
  bool needed = config::reads_conversations(opening.config);
  if (!needed && (folder.empty() || opening.config.data.kind == DataKind::kFake)) return ok();
  auto tokenizer = open_tokenizer(opening.config, opening.volume_root);
  if (!tokenizer) {
    if (needed || !opening.config.tokenizer.name.empty()) return std::move(tokenizer).error();
    if (tokenizer.error().code() == Code::kDataMissingOnVolume) return ok();
    opening.warnings.push_back(fmt::format("the tokenizer was not compared with the model: {}", tokenizer.error().message()));
    return ok();
  }
  if ((*tokenizer)->vocab_size() > vocabulary(opening)) {
    return Error(Code::kDataInvalid,
                 fmt::format("{}/tokenizer.json has ids up to {}, the model's embedding only {} rows: it is the tokenizer of another model",
                             folder, (*tokenizer)->vocab_size() - 1, opening.spec.vocab_size),
                 "use the tokenizer the model was made for, or raise vocab_size in config.json");
  }
  opening.tokenizer = std::move(*tokenizer);
  if (!opening.separator_id) opening.separator_id = end_token(*opening.tokenizer, folder);
  return ok();
}

}  // namespace

Result<std::string> tokenizer_folder(const config::TrainingConfig& config, const std::string& volume_root) {
  const std::string& name = config.tokenizer.name.empty() ? config.model.name : config.tokenizer.name;
  if (name.empty()) return std::string();
  return path_on_volume(volume_root, name);
}

Result<TrainingRows> open_rows(const config::TrainingConfig& config, const DecoderSpec& spec, const std::string& volume_root,
                               std::function<void(const std::string&)> warn) {
  Opening opening{config, spec, volume_root, nullptr, std::nullopt, std::move(warn), {}};
  if (!spec.eos_token_ids.empty()) opening.separator_id = static_cast<uint32_t>(spec.eos_token_ids.front());
  CAIRN_CHECK_OK(load_tokenizer(opening));
  TrainingRows rows;
  CAIRN_TRY(rows.train, open_one(opening, config.data, nullptr));
  if (config.val) {
    const ValidationSettings& val = *config.val;
    CAIRN_TRY(rows.validation, open_one(opening, val.data, &val));
    if (val.num_samples > 0) rows.validation_rows_max = (val.num_samples + val.data.micro_batch_size - 1) / val.data.micro_batch_size;
  }
  rows.warnings = std::move(opening.warnings);
  return rows;
}

}  // namespace cairn::trainer
