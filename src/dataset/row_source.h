// What a training step learns from: rows of token ids with their targets, masks and the lengths of the sequences packed in them.
//
// A source is one endless stream of rows in an order that depends on its settings and seed alone: not on threads, machine or the
// number of processes. Process r of R takes the rows r, r+R, … and skips the others, so a run may go on with another number of
// processes. `cursor` and `restore` make the stream go on exactly where it stood. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cairn::dataset {

// One micro batch. All vectors but the last have one entry a token.
struct Row {
  std::vector<int32_t> input_ids;
  std::vector<int32_t> target_ids;        // the id that follows; meaningless where the mask is 0
  std::vector<uint8_t> loss_mask;         // 1: this target counts
  std::vector<int32_t> sequence_lengths;  // of the sequences in the row, in order; their sum is input_ids.size(). Attention and
                                          // positions start anew with each; padding belongs to the last one.
};

struct RowProgress {
  int64_t epoch = 0;            // of the next row
  int64_t samples = 0;          // conversations or windows handed out so far, over all epochs
  int64_t skipped_samples = 0;  // conversations without a trainable token, in the epochs so far
};

class RowSource {
 public:
  virtual ~RowSource() = default;
  // The next row. An empty data set was refused when the source was made, so an error here is a file that changed or cannot be read.
  virtual Result<Row> next() = 0;
  // As `count` calls of `next`, without the work where that is possible.
  virtual Status skip(int64_t count) = 0;
  // Rows of one epoch when that is known without reading everything, else 0.
  virtual int64_t rows_per_epoch() const = 0;
  virtual RowProgress progress() const = 0;
  // A short JSON text; bound to the data set by a fingerprint, so that a cursor of other data is refused by `restore`
  // (checkpoint_mismatch, with both fingerprints).
  virtual std::string cursor() const = 0;
  virtual Status restore(std::string_view cursor) = 0;
};

}  // namespace cairn::dataset
