// Rows of pretraining: windows of shards in the order of docs/formats/pretraining-order.md. `micro_batch_size` windows a row, each
// a sequence of its own (`sequence_lengths` = seq_len that many times).
//
// As RowSource: not thread-safe. Reads what it needs from the shards, keeps none of it; `skip` and `restore` cost nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "dataset/row_source.h"

namespace cairn::dataset {

struct PretrainRowsOptions {
  std::vector<std::string> paths;  // folders of shards, or shards
  int64_t seq_len = 0;
  int64_t micro_batch_size = 1;
  // Ids from here on are refused when they are met (data_invalid names shard, place and number).
  uint32_t vocab_size = 0;
  bool shuffle = true;
  uint64_t seed = 0;
  // Where given and not among the first kSeparatorLookTokens ids, there is a warning, unless an index shows that documents end in
  // some other common id that may be a separator.
  std::optional<uint32_t> separator_id;
  // Whether an id is a special token, which no text gives; others are no separators. Empty: nobody knows, all ids may be.
  std::function<bool(uint32_t)> is_special;
  // Validation: windows in their order, the first `num_samples` of them (0: all). `next` starts again after rows_per_epoch() rows;
  // the last of these has fewer windows where micro_batch_size does not divide their number. Without effect on the above: no shuffle.
  bool validation = false;
  int64_t num_samples = 0;
};

inline constexpr uint64_t kSeparatorLookTokens = 1'000'000;
inline constexpr int64_t kSeqLenMax = 1 << 24;

class PretrainRows : public RowSource {
 public:
  // data_missing_on_volume, data_invalid (no shards, too few tokens for one window), data_corrupt.
  static Result<std::unique_ptr<PretrainRows>> open(const PretrainRowsOptions& options);

  // What a user should know before the run: no separator seen, shards of different tokenizers. Whole sentences.
  virtual const std::vector<std::string>& warnings() const = 0;
  virtual uint64_t tokens() const = 0;
  virtual size_t shard_count() const = 0;
  virtual uint64_t windows_per_epoch() const = 0;
};

}  // namespace cairn::dataset
