#include "dataset/sft_rows.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "codec/digest.h"
#include "dataset/count_cursor.h"
#include "dataset/permutation.h"
#include "dataset/row_packing.h"
#include "dataset/sft_files.h"

namespace cairn::dataset {

namespace {

constexpr int64_t kRowTokensMax = int64_t{1} << 26;
constexpr uint64_t kCheckBytes = 256u * 1024 * 1024;
constexpr size_t kNamedMax = 5;

class Rows final : public SftRows {
 public:
  Rows(const SftRowsOptions& options, std::unique_ptr<SftFiles> files, std::unique_ptr<Encoder> encoder)
      : options_(options),
        files_(std::move(files)),
        encoder_(std::move(encoder)),
        renderer_(make_renderer(options.renderer)),
        row_tokens_(static_cast<size_t>(options.seq_len * options.micro_batch_size)),
        sample_tokens_(options.sample_tokens_max > 0 ? std::min(row_tokens_, static_cast<size_t>(options.sample_tokens_max)) : row_tokens_),
        lengths_(files_->size(), kUnknown) {
    bool shuffled = options_.shuffle && !options_.validation;
    std::string text = fmt::format("sft {} {} {}", files_->fingerprint(), shuffled, shuffled ? options_.seed : 0);
    cursor_ = {"sft", codec::sha256(codec::as_bytes(text)).hex().substr(0, 16)};
  }

  Status check_rows();

  Result<Row> next() override {
    RowBuilder builder(row_tokens_);
    CAIRN_CHECK_OK(take_row(&builder));
    return builder.finish();
  }
  Status skip(int64_t count) override {
    for (int64_t i = 0; i < count; ++i) CAIRN_CHECK_OK(take_row(nullptr));
    return ok();
  }
  int64_t rows_per_epoch() const override { return 0; }
  RowProgress progress() const override { return {static_cast<int64_t>(epoch_), samples_, skipped_}; }
  std::string cursor() const override;
  Status restore(std::string_view cursor) override;

  uint64_t samples_per_epoch() const override { return files_->size(); }
  size_t file_count() const override { return files_->file_count(); }
  const std::vector<std::string>& left_aside() const override { return files_->left_aside(); }
  Result<SftSample> look(uint64_t place) override;

 private:
  static constexpr uint32_t kUnknown = 0, kSkipped = 1;  // else the length in positions, plus kSkipped

  uint64_t file_row(uint64_t place);
  Result<RenderedText> render(uint64_t row);
  // Tokenizes a row into `tokens_` and notes its length.
  Status measure(uint64_t row);
  Status find_sample();
  Status take_row(RowBuilder* builder);
  void note_skip(uint64_t row);

  const SftRowsOptions options_;
  std::unique_ptr<SftFiles> files_;
  std::unique_ptr<Encoder> encoder_;
  std::unique_ptr<const Renderer> renderer_;
  const size_t row_tokens_, sample_tokens_;
  CountCursor cursor_;
  std::vector<uint32_t> lengths_;  // of rows, once they were tokenized
  std::optional<Permutation> order_;
  uint64_t order_epoch_ = 0;

  // The place of the next sample. Once `found_`, it is one that is not skipped.
  uint64_t epoch_ = 0, place_ = 0;
  bool found_ = false;
  int64_t samples_ = 0, skipped_ = 0;
  std::vector<uint64_t> named_;  // rows of which there was a warning

  TokenizedText tokens_;              // of the row `tokens_row_`
  std::optional<uint64_t> tokens_row_;
  std::string json_;
};

uint64_t Rows::file_row(uint64_t place) {
  if (!options_.shuffle || options_.validation) return place;
  if (!order_ || order_epoch_ != epoch_) {
    order_.emplace(files_->size(), Permutation::key_of(options_.seed, epoch_));
    order_epoch_ = epoch_;
  }
  return order_->at(place);
}

Result<RenderedText> Rows::render(uint64_t row) {
  CAIRN_CHECK_OK(files_->read(row, json_));
  auto value = parse_json(json_);
  // Where it stands is looked up only for a bad row.
  if (!value) return parse_conversation(json_, files_->where(row)).error();
  auto conversation = conversation_of(*value, "", files_->from_columns(row));
  if (!conversation) return conversation_of(*value, files_->where(row), files_->from_columns(row)).error();
  return renderer_->render(*conversation);
}

Status Rows::measure(uint64_t row) {
  if (tokens_row_ == row) return ok();
  tokens_row_.reset();
  CAIRN_TRY(RenderedText rendered, render(row));
  CAIRN_CHECK_OK(tokenize(rendered, options_.loss_mask, *encoder_, tokens_));
  tokens_row_ = row;
  // What is learnt is a target, and the first id is none.
  size_t seen = std::min(tokens_.ids.size(), static_cast<size_t>(options_.seq_len) + 1);
  auto begin = tokens_.trainable.begin();
  bool learns = seen >= 2 && std::find(begin + 1, begin + static_cast<ptrdiff_t>(seen), 1) != begin + static_cast<ptrdiff_t>(seen);
  lengths_[row] = learns ? static_cast<uint32_t>(std::min(tokens_.ids.size() - 1, sample_tokens_)) + kSkipped : kSkipped;
  return ok();
}

void Rows::note_skip(uint64_t row) {
  ++skipped_;
  if (!options_.warn || named_.size() >= kNamedMax || std::find(named_.begin(), named_.end(), row) != named_.end()) return;
  named_.push_back(row);
  options_.warn(fmt::format("{}: skipped, none of its first {} tokens is trained on{}", files_->where(row), options_.seq_len,
                            named_.size() == kNamedMax ? "; further ones are only counted" : ""));
}

Status Rows::find_sample() {
  uint64_t seen = 0;
  while (!found_) {
    if (place_ == files_->size()) {
      place_ = 0;
      ++epoch_;
    }
    uint64_t row = file_row(place_);
    if (lengths_[row] == kUnknown) CAIRN_CHECK_OK(measure(row));
    if (lengths_[row] != kSkipped) {
      found_ = true;
      return ok();
    }
    note_skip(row);
    ++place_;
    // An order may end with skipped rows and the next begin with them: only so many in a row are a whole epoch.
    if (++seen < 2 * files_->size()) continue;
    return Error(Code::kDataInvalid,
                 fmt::format("{}: none of its {} conversations has a token to train on among the first {}", options_.path,
                             files_->size(), options_.seq_len),
                 "raise data.seq_len, or check data.loss_mask and that the rows have assistant turns");
  }
  return ok();
}

Status Rows::take_row(RowBuilder* builder) {
  CAIRN_CHECK_OK(find_sample());
  uint64_t epoch = epoch_;
  size_t used = 0;
  for (;;) {
    uint64_t row = file_row(place_);
    size_t length = lengths_[row] - kSkipped;
    if (used > 0 && (used + length > row_tokens_ || (options_.validation && epoch_ != epoch))) return ok();
    if (builder) {
      CAIRN_CHECK_OK(measure(row));
      builder->append(std::span(tokens_.ids).first(length + 1), std::span(tokens_.trainable).first(length + 1));
    }
    used += length;
    ++samples_;
    ++place_;
    found_ = false;
    // Also after the last sample of this row, so that `progress` knows the epoch of the next one.
    CAIRN_CHECK_OK(find_sample());
    if (used == row_tokens_) return ok();
  }
}

std::string Rows::cursor() const {
  return write_cursor(cursor_, {{"epoch", static_cast<int64_t>(epoch_)},
                                {"place", static_cast<int64_t>(place_)},
                                {"samples", samples_},
                                {"skipped", skipped_}});
}

Status Rows::restore(std::string_view text) {
  CAIRN_TRY(std::vector<int64_t> counts, read_cursor(text, cursor_, options_.path, {"epoch", "place", "samples", "skipped"}));
  if (static_cast<uint64_t>(counts[1]) > files_->size()) {
    return Error(Code::kDataCorrupt, fmt::format("the cursor stands at sample {} of {}", counts[1], files_->size()));
  }
  epoch_ = static_cast<uint64_t>(counts[0]);
  place_ = static_cast<uint64_t>(counts[1]);
  samples_ = counts[2];
  skipped_ = counts[3];
  found_ = false;
  return ok();
}

Status Rows::check_rows() {
  uint64_t bytes = 0;
  for (uint64_t row = 0; row < files_->size() && bytes < kCheckBytes; ++row) {
    CAIRN_TRY(RenderedText rendered, render(row));
    bytes += json_.size();
  }
  return ok();
}

Result<SftSample> Rows::look(uint64_t place) {
  CAIRN_CHECK(place < files_->size());
  uint64_t row = place;
  if (options_.shuffle && !options_.validation) row = Permutation(files_->size(), Permutation::key_of(options_.seed, 0)).at(place);
  SftSample sample;
  sample.where = files_->where(row);
  CAIRN_TRY(sample.rendered, render(row));
  CAIRN_CHECK_OK(measure(row));
  sample.tokens = tokens_;
  sample.ids_used = std::min(tokens_.ids.size(), sample_tokens_ + 1);
  sample.skipped = lengths_[row] == kSkipped;
  return sample;
}

}  // namespace

Result<std::unique_ptr<SftRows>> SftRows::open(const SftRowsOptions& options, std::shared_ptr<const Tokenizer> tokenizer,
                                               std::unique_ptr<Encoder> encoder) {
  if (options.seq_len < 1 || options.micro_batch_size < 1 || options.seq_len > kRowTokensMax / options.micro_batch_size) {
    return Error(Code::kConfigInvalid, fmt::format("a row of {} x {} tokens; expected 1 to {}", options.seq_len,
                                                   options.micro_batch_size, kRowTokensMax));
  }
  CAIRN_CHECK_OK(check_chat_tokens(*tokenizer, *encoder, options.tokenizer_name));
  if (options.vocab_size > 0 && tokenizer->vocab_size() > options.vocab_size) {
    return Error(Code::kConfigInvalid,
                 fmt::format("the tokenizer '{}' has {} ids, but the model only {}", options.tokenizer_name, tokenizer->vocab_size(),
                             options.vocab_size),
                 "use the model's own tokenizer");
  }
  CAIRN_TRY(std::unique_ptr<SftFiles> files, SftFiles::open(options.path, options.scratch_folder));
  auto rows = std::make_unique<Rows>(options, std::move(files), std::move(encoder));
  CAIRN_CHECK_OK(rows->check_rows());
  return Result<std::unique_ptr<SftRows>>(std::move(rows));
}

}  // namespace cairn::dataset
