// The rows of a fine-tuning data set, found once and read one by one in any order: JSONL files are indexed by their lines (some
// four bytes a row in memory), Parquet files are first written as JSONL to a file without a name in `scratch_folder`, since their
// rows cannot be read singly.
//
// `path` is a file or a folder. In a folder, files ending in .jsonl, .ndjson, .json or .parquet are taken in the byte order of their
// paths. Where the paths tell splits apart (a word "train", "validation", "test" …), only the training files are taken; where none
// says train, those without such a word; a file or folder named by itself is always taken whole.
//
// Immutable after `open`; reading is not thread-safe. A file that changed after it was indexed is file_changed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace cairn::dataset {

inline constexpr uint64_t kSftRowsMax = 500'000'000;
inline constexpr size_t kSftFilesMax = 100'000;

class SftFiles {
 public:
  // data_missing_on_volume when there is nothing at `path`, data_invalid when it holds no row, limit_exceeded names a line longer
  // than kJsonBytesMax, or the file in which the rows become more than `rows_max`. `scratch_folder` may be empty: TMPDIR or /tmp.
  static Result<std::unique_ptr<SftFiles>> open(const std::string& path, const std::string& scratch_folder,
                                                uint64_t rows_max = kSftRowsMax);
  virtual ~SftFiles() = default;

  virtual uint64_t size() const = 0;
  // REQUIRES: row < size().
  virtual Status read(uint64_t row, std::string& json) = 0;
  // Whether the row comes from columns (Parquet), where a list may stand as JSON text.
  virtual bool from_columns(uint64_t row) const = 0;
  // "chat.jsonl, line 12", for messages; reads the file up to there.
  virtual std::string where(uint64_t row) = 0;
  // 64 hex digits that depend on the names and sizes of the files.
  virtual const std::string& fingerprint() const = 0;
  virtual size_t file_count() const = 0;
  // Files of other splits that were left aside; paths relative to the folder.
  virtual const std::vector<std::string>& left_aside() const = 0;
};

}  // namespace cairn::dataset
