#include "dataset/pretrain_rows.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "codec/json_depth.h"
#include "dataset/permutation.h"
#include "dataset/shard_pool.h"

namespace cairn::dataset {
namespace {

constexpr int kCursorVersion = 1;
constexpr uint64_t kLookDocuments = 200;
constexpr size_t kLookTokens = 64 * 1024;
constexpr uint64_t kWindowsMax = uint64_t{1} << 62;

class Windows final : public PretrainRows {
 public:
  Windows(const PretrainRowsOptions& options, ShardPool pool)
      : options_(options), pool_(std::move(pool)), seq_len_(static_cast<uint64_t>(options.seq_len)) {}

  Status start();

  Result<Row> next() override;
  Status skip(int64_t count) override;
  int64_t rows_per_epoch() const override { return static_cast<int64_t>(rows_in_epoch()); }
  RowProgress progress() const override;
  std::string cursor() const override;
  Status restore(std::string_view cursor) override;
  const std::vector<std::string>& warnings() const override { return warnings_; }
  uint64_t tokens() const override { return pool_.tokens(); }
  size_t shard_count() const override { return pool_.shards().size(); }
  uint64_t windows_per_epoch() const override { return windows_; }

 private:
  Status look_for_separator();
  Result<bool> documents_end_alike();
  void compare_tokenizers();
  uint64_t rows_in_epoch() const;
  uint64_t window_at(uint64_t position);
  Status append_window(uint64_t window, Row& row);
  Error id_too_large(uint64_t position, uint32_t id) const;

  const PretrainRowsOptions options_;
  ShardPool pool_;
  const uint64_t seq_len_;
  uint64_t windows_ = 0;  // of one epoch
  std::string fingerprint_;
  std::vector<std::string> warnings_;
  uint64_t position_ = 0;  // windows handed out, over all epochs
  std::optional<Permutation> order_;
  uint64_t order_epoch_ = 0;
  std::vector<uint32_t> ids_;
  std::vector<uint8_t> learnt_;
};

Status Windows::start() {
  if (pool_.tokens() < seq_len_ + 1) {
    return Error(Code::kDataInvalid,
                 fmt::format("{} shards in {} hold {} tokens, but one window of seq_len = {} needs {}", pool_.shards().size(),
                             fmt::join(options_.paths, ", "), pool_.tokens(), seq_len_, seq_len_ + 1),
                 "tokenize more text, or lower seq_len");
  }
  windows_ = (pool_.tokens() - 1 + seq_len_ - 1) / seq_len_;
  if (options_.validation && options_.num_samples > 0) {
    windows_ = std::min(windows_, static_cast<uint64_t>(options_.num_samples));
  }
  CAIRN_TRY(fingerprint_, pool_.fingerprint());
  compare_tokenizers();
  return look_for_separator();
}

Status Windows::look_for_separator() {
  if (!options_.separator_id) return ok();
  uint64_t look = std::min(pool_.tokens(), kSeparatorLookTokens);
  std::vector<uint32_t> ids;
  for (uint64_t at = 0; at < look; at += ids.size()) {
    ids.resize(std::min<uint64_t>(kLookTokens, look - at));
    CAIRN_CHECK_OK(pool_.read(at, ids, {}));
    if (std::find(ids.begin(), ids.end(), *options_.separator_id) != ids.end()) return ok();
  }
  CAIRN_TRY(bool other_separator, documents_end_alike());
  if (other_separator) return ok();
  warnings_.push_back(fmt::format(
      "No separator (id {}) is among the first {} tokens of {}: documents may have been joined without one, and the model will not "
      "learn where a text ends. Tokenize with --eos-token to write one after each document.",
      *options_.separator_id, look, fmt::join(options_.paths, ", ")));
  return ok();
}

// Whether the first documents that an index tells apart all end in one special id: then that is a separator, if not the expected one
// (models of conversations name the end of a turn as theirs). Texts may well all end in one ordinary id: that of a newline.
Result<bool> Windows::documents_end_alike() {
  for (size_t i = 0; i < pool_.shards().size(); ++i) {
    const ShardReader& shard = pool_.shards()[i];
    uint64_t documents = std::min(shard.documents().value_or(0), kLookDocuments);
    if (documents < 2) continue;
    CAIRN_TRY(std::vector<uint32_t> last, pool_.last_ids(i, documents));
    if (last.size() < 2 || (options_.is_special && !options_.is_special(last[0]))) return false;
    return std::count(last.begin(), last.end(), last[0]) == static_cast<std::ptrdiff_t>(last.size());
  }
  return false;
}

void Windows::compare_tokenizers() {
  const ShardReader* first = nullptr;
  for (const ShardReader& shard : pool_.shards()) {
    if (shard.tokens() == 0 || shard.tokenizer().empty()) continue;
    if (first == nullptr) first = &shard;
    if (shard.tokenizer() == first->tokenizer() && shard.token_size() == first->token_size()) continue;
    warnings_.push_back(fmt::format("Shards name different tokenizers: {} says \"{}\" ({} bytes a token), {} says \"{}\" ({} bytes a token).",
                                    first->name(), first->tokenizer(), first->token_size(), shard.name(), shard.tokenizer(),
                                    shard.token_size()));
    return;
  }
}

uint64_t Windows::rows_in_epoch() const {
  auto micro = static_cast<uint64_t>(options_.micro_batch_size);
  return options_.validation ? (windows_ + micro - 1) / micro : std::max<uint64_t>(1, windows_ / micro);
}

uint64_t Windows::window_at(uint64_t position) {
  uint64_t epoch = position / windows_;
  uint64_t place = position % windows_;
  if (options_.validation || !options_.shuffle) return place;
  if (!order_ || order_epoch_ != epoch) {
    order_.emplace(windows_, Permutation::key_of(options_.seed, epoch));
    order_epoch_ = epoch;
  }
  return order_->at(place);
}

Status Windows::append_window(uint64_t window, Row& row) {
  uint64_t wanted = window * seq_len_;
  // The last window ends with the pool; what the one before it had as targets is masked.
  uint64_t first = std::min(wanted, pool_.tokens() - 1 - seq_len_);
  ids_.resize(seq_len_ + 1);
  learnt_.resize(pool_.has_loss() ? ids_.size() : 0);
  CAIRN_CHECK_OK(pool_.read(first, ids_, learnt_));
  for (size_t i = 0; i < ids_.size(); ++i) {
    if (ids_[i] >= options_.vocab_size) return id_too_large(first + i, ids_[i]);
  }
  for (size_t i = 0; i < seq_len_; ++i) {
    row.input_ids.push_back(static_cast<int32_t>(ids_[i]));
    row.target_ids.push_back(static_cast<int32_t>(ids_[i + 1]));
    bool counts = first + i >= wanted && (learnt_.empty() || learnt_[i + 1] != 0);
    row.loss_mask.push_back(counts ? 1 : 0);
  }
  row.sequence_lengths.push_back(static_cast<int32_t>(seq_len_));
  return ok();
}

Error Windows::id_too_large(uint64_t position, uint32_t id) const {
  ShardPool::Place place = pool_.locate(position);
  return Error(Code::kDataInvalid,
               fmt::format("{} holds id {} at token {}, but the model's vocabulary has {} entries", place.shard->name(), id, place.offset,
                           options_.vocab_size),
               "tokenize with this model's tokenizer, or name the model that fits the shards");
}

Result<Row> Windows::next() {
  Row row;
  auto count = static_cast<uint64_t>(options_.micro_batch_size);
  if (options_.validation) count = std::min(count, windows_ - position_ % windows_);
  for (std::vector<int32_t>* ids : {&row.input_ids, &row.target_ids}) ids->reserve(count * seq_len_);
  row.loss_mask.reserve(count * seq_len_);
  for (uint64_t i = 0; i < count; ++i) CAIRN_CHECK_OK(append_window(window_at(position_ + i), row));
  position_ += count;
  return row;
}

Status Windows::skip(int64_t count) {
  CAIRN_CHECK(count >= 0);
  auto micro = static_cast<uint64_t>(options_.micro_batch_size);
  auto rows = static_cast<uint64_t>(count);
  if (rows > (kWindowsMax - position_) / micro) {
    return Error(Code::kLimitExceeded, fmt::format("cannot skip {} rows after window {}", count, position_));
  }
  if (options_.validation) {
    uint64_t per_epoch = rows_in_epoch();
    rows += position_ / windows_ * per_epoch + position_ % windows_ / micro;
    position_ = rows / per_epoch * windows_ + rows % per_epoch * micro;
  } else {
    position_ += rows * micro;
  }
  return ok();
}

RowProgress Windows::progress() const {
  RowProgress progress;
  progress.epoch = static_cast<int64_t>(position_ / windows_);
  progress.samples = static_cast<int64_t>(position_);
  return progress;
}

std::string Windows::cursor() const {
  return fmt::format(R"({{"v":{},"kind":"pretrain","windows":{},"data":"{}","tokens":{},"seq_len":{},"shuffle":{},"seed":{}}})",
                     kCursorVersion, position_, fingerprint_, pool_.tokens(), seq_len_, options_.shuffle, options_.seed);
}

Error mismatch(std::string_view what, const std::string& theirs, const std::string& ours) {
  return Error(Code::kCheckpointMismatch, fmt::format("the checkpoint was made with {} {}, this run has {}", what, theirs, ours),
               "resume with the same data, or start the data anew: [ckpt] skip_dataloader = true");
}

Status Windows::restore(std::string_view cursor) {
  // A deep text is none of ours, and would be copied level by level.
  auto json = codec::json_deeper_than(cursor, 1) ? nlohmann::json() : nlohmann::json::parse(cursor, nullptr, false);
  auto is_number = [&](const char* key) { return json.contains(key) && json[key].is_number_unsigned(); };
  bool whole = json.is_object() && json.value("kind", nlohmann::json()) == "pretrain" && is_number("v") && is_number("windows") &&
               is_number("tokens") && is_number("seq_len") && is_number("seed") && json.contains("shuffle") &&
               json["shuffle"].is_boolean() && json.contains("data") && json["data"].is_string();
  if (!whole) return Error(Code::kCheckpointMismatch, "the checkpoint's place in the data is not one of pretraining");
  if (json["v"] != kCursorVersion) {
    return Error(Code::kFormatUnsupported, fmt::format("the checkpoint's place in the data has version {}, not {}",
                                                       json["v"].get<uint64_t>(), kCursorVersion));
  }
  auto theirs = json["data"].get<std::string>();
  if (theirs != fingerprint_) return mismatch("other data: fingerprint", theirs, fingerprint_);
  auto tokens = json["tokens"].get<uint64_t>();
  if (tokens != pool_.tokens()) return mismatch("tokens", std::to_string(tokens), std::to_string(pool_.tokens()));
  auto seq_len = json["seq_len"].get<uint64_t>();
  if (seq_len != seq_len_) return mismatch("data.seq_len", std::to_string(seq_len), std::to_string(seq_len_));
  bool shuffle = json["shuffle"].get<bool>();
  if (shuffle != options_.shuffle) return mismatch("data.shuffle", fmt::to_string(shuffle), fmt::to_string(options_.shuffle));
  auto seed = json["seed"].get<uint64_t>();
  if (seed != options_.seed) return mismatch("data.seed", std::to_string(seed), std::to_string(options_.seed));
  auto windows = json["windows"].get<uint64_t>();
  if (windows > kWindowsMax) return Error(Code::kCheckpointMismatch, fmt::format("the checkpoint says that {} windows were read", windows));
  position_ = windows;
  return ok();
}

}  // namespace

Result<std::unique_ptr<PretrainRows>> PretrainRows::open(const PretrainRowsOptions& options) {
  CAIRN_CHECK(options.seq_len > 0 && options.seq_len <= kSeqLenMax);
  CAIRN_CHECK(options.micro_batch_size > 0 && options.micro_batch_size <= kSeqLenMax && options.num_samples >= 0);
  CAIRN_CHECK(options.vocab_size > 0 && options.vocab_size <= uint32_t{1} << 31);
  CAIRN_TRY(ShardPool pool, ShardPool::open(options.paths));
  auto rows = std::make_unique<Windows>(options, std::move(pool));
  CAIRN_CHECK_OK(rows->start());
  return std::unique_ptr<PretrainRows>(std::move(rows));
}

}  // namespace cairn::dataset
