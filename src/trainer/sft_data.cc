#include "trainer/sft_data.h"

#include <fmt/format.h>

#include "base/check.h"
#include "dataset/fake_rows.h"
#include "os/file_system.h"
#include "trainer/volume_paths.h"

namespace cairn::trainer {

using config::DataKind;
using config::RendererKind;

namespace {

const std::string& tokenizer_name(const config::TrainingConfig& config) {
  return config.tokenizer.name.empty() ? config.model.name : config.tokenizer.name;
}

}  // namespace

Result<std::shared_ptr<const dataset::Tokenizer>> open_tokenizer(const config::TrainingConfig& config, const std::string& volume_root) {
  const std::string& name = tokenizer_name(config);
  CAIRN_TRY(std::string folder, path_on_volume(volume_root, name));
  auto text = os::posix_file_system().read_file(folder + "/tokenizer.json", dataset::kTokenizerBytesMax);
  if (!text) {
    if (text.error().code() != Code::kFileNotFound) return std::move(text).error();
    return Error(Code::kDataMissingOnVolume, fmt::format("there is no tokenizer.json in '{}'", name),
                 "put one there, or name its folder as tokenizer.name");
  }
  return dataset::Tokenizer::parse(*text, name + "/tokenizer.json");
}

Result<std::unique_ptr<dataset::SftRows>> open_sft_rows(const SftDataRequest& request,
                                                        std::shared_ptr<const dataset::Tokenizer> tokenizer) {
  CAIRN_CHECK(request.data.kind == DataKind::kSft);
  dataset::SftRowsOptions options;
  CAIRN_TRY(options.path, path_on_volume(request.volume_root, request.data.name));
  switch (request.config.renderer.kind) {
    case RendererKind::kQwen3: options.renderer.format = dataset::ChatFormat::kQwen3; break;
    case RendererKind::kPrimeQwen3: options.renderer.format = dataset::ChatFormat::kPrimeQwen3; break;
    case RendererKind::kNone:
      return Error(Code::kConfigInvalid, "fine-tuning needs [renderer] name", "name = \"qwen3\" or \"prime-qwen3\"");
  }
  options.renderer.enable_thinking = request.config.renderer.enable_thinking;
  const config::LossMask& mask = request.data.loss_mask;
  options.loss_mask = {mask.system, mask.user, mask.assistant, mask.tool};
  options.shuffle = request.data.shuffle;
  options.seed = request.data.seed;
  options.seq_len = request.data.seq_len;
  options.micro_batch_size = request.data.micro_batch_size;
  // A row may be longer than what the model can see at once; a sample may not.
  options.sample_tokens_max = request.config.model.seq_len.value_or(request.positions_max);
  options.vocab_size = request.vocab_size;
  options.validation = request.validation;
  options.tokenizer_name = tokenizer_name(request.config);
  options.warn = request.warn;
  auto encoder = dataset::Encoder::create(tokenizer);
  return dataset::SftRows::open(options, std::move(tokenizer), std::move(encoder));
}

Result<std::unique_ptr<dataset::RowSource>> open_fake_rows(const config::DataSettings& data, uint32_t vocab_size,
                                                           int64_t validation_rows) {
  CAIRN_CHECK(data.kind == DataKind::kFake);
  dataset::FakeRowsOptions options;
  options.seq_len = data.seq_len;
  options.micro_batch_size = data.micro_batch_size;
  options.vocab_size = vocab_size;
  options.variable_length = data.fake_variable_length;
  options.random_ids = data.fake_random_ids;
  options.seed = data.seed;
  options.rows_per_epoch = validation_rows;
  return dataset::make_fake_rows(options);
}

}  // namespace cairn::trainer
