#include "dataset/fake_rows.h"

#include <vector>

#include <fmt/format.h>

#include "base/check.h"
#include "base/random.h"
#include "codec/digest.h"
#include "dataset/count_cursor.h"
#include "dataset/row_packing.h"

namespace cairn::dataset {

namespace {

constexpr int64_t kRowTokensMax = int64_t{1} << 26;

class FakeRows final : public RowSource {
 public:
  explicit FakeRows(const FakeRowsOptions& options)
      : options_(options), row_tokens_(static_cast<size_t>(options.seq_len * options.micro_batch_size)) {
    // The order depends on these; how many samples fill a row does not matter to a cursor.
    std::string text = fmt::format("fake {} {} {} {}", options.seq_len, options.variable_length, options.random_ids, options.seed);
    cursor_ = {"fake", codec::sha256(codec::as_bytes(text)).hex().substr(0, 16)};
  }

  Result<Row> next() override {
    RowBuilder builder(row_tokens_);
    take_row(&builder);
    return builder.finish();
  }
  Status skip(int64_t count) override {
    for (int64_t i = 0; i < count; ++i) take_row(nullptr);
    return ok();
  }
  int64_t rows_per_epoch() const override { return options_.rows_per_epoch; }
  RowProgress progress() const override {
    return {options_.rows_per_epoch > 0 ? rows_ / options_.rows_per_epoch : 0, samples_, 0};
  }
  std::string cursor() const override {
    return write_cursor(cursor_, {{"rows", rows_}, {"sample", sample_}, {"samples", samples_}});
  }
  Status restore(std::string_view text) override {
    CAIRN_TRY(std::vector<int64_t> counts, read_cursor(text, cursor_, "data.type = \"fake\"", {"rows", "sample", "samples"}));
    rows_ = counts[0];
    sample_ = counts[1];
    samples_ = counts[2];
    return ok();
  }

 private:
  SeededRandom random_of(int64_t sample) const {
    return SeededRandom(SeededRandom(options_.seed).next_u64() + static_cast<uint64_t>(sample));
  }
  size_t length_of(SeededRandom& random) const {
    auto longest = static_cast<uint64_t>(options_.seq_len);
    return static_cast<size_t>(options_.variable_length && longest > 1 ? 1 + random.below(longest - 1) : longest);
  }

  void take_row(RowBuilder* builder) {
    if (options_.rows_per_epoch > 0 && rows_ % options_.rows_per_epoch == 0) sample_ = 0;
    for (size_t used = 0; used < row_tokens_;) {
      SeededRandom random = random_of(sample_);
      size_t length = length_of(random);
      if (used > 0 && used + length > row_tokens_) break;
      if (builder) append(length, random, *builder);
      used += length;
      ++sample_;
      ++samples_;
    }
    ++rows_;
  }

  void append(size_t length, SeededRandom& random, RowBuilder& builder) {
    ids_.assign(length + 1, static_cast<uint32_t>(static_cast<uint64_t>(sample_) % options_.vocab_size));
    if (options_.random_ids) {
      for (uint32_t& id : ids_) id = static_cast<uint32_t>(random.below(options_.vocab_size));
    }
    trainable_.assign(length + 1, 1);
    builder.append(ids_, trainable_);
  }

  const FakeRowsOptions options_;
  const size_t row_tokens_;
  CountCursor cursor_;
  int64_t rows_ = 0, sample_ = 0, samples_ = 0;
  std::vector<uint32_t> ids_;
  std::vector<uint8_t> trainable_;
};

}  // namespace

Result<std::unique_ptr<RowSource>> make_fake_rows(const FakeRowsOptions& options) {
  if (options.seq_len < 1 || options.micro_batch_size < 1 || options.seq_len > kRowTokensMax / options.micro_batch_size) {
    return Error(Code::kConfigInvalid,
                 fmt::format("a row of {} x {} tokens; expected 1 to {}", options.seq_len, options.micro_batch_size, kRowTokensMax));
  }
  if (options.vocab_size < 1) return Error(Code::kConfigInvalid, "fake data needs a vocabulary of at least one id");
  return Result<std::unique_ptr<RowSource>>(std::make_unique<FakeRows>(options));
}

}  // namespace cairn::dataset
