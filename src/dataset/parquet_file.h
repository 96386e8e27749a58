// A Parquet file as rows: enough of the format for text and conversations, nothing more. Columns of strings, numbers and booleans,
// alone or in any nesting of structs and lists (`messages`: list<struct<role: string, content: string>>), plain or dictionary
// encoded, in data pages v1 and v2, uncompressed or with snappy, gzip or zstd. What else a file may hold (other encodings,
// decimals, times, maps, encryption) is format_unsupported and named when a column that holds it is asked for; other columns may
// hold what they like.
//
// Every length and count of the file is checked; data_corrupt names the file and the column. A reader holds one page and one
// dictionary of each column asked for, stored and unpacked, kParquetReaderBytesMax in all (limit_exceeded), and the row. Beyond
// that, a file of N bytes may give any number of rows up to kParquetRowsMax: who keeps something of each row counts them. The file is read as it is needed: file_changed when it became
// shorter. A ParquetFile is immutable and shared by threads; a reader made of it belongs to one thread and keeps the file alive.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "os/fd.h"

namespace cairn::dataset {

inline constexpr uint32_t kParquetFooterBytesMax = 64u * 1024 * 1024;
inline constexpr uint32_t kParquetPageBytesMax = 1024u * 1024 * 1024;
inline constexpr size_t kParquetReaderBytesMax = 2 * size_t{kParquetPageBytesMax};
inline constexpr size_t kParquetRowBytesMax = 256u * 1024 * 1024;

// Rows as JSON objects.
class ParquetRows {
 public:
  virtual ~ParquetRows() = default;
  // The next row as one line of JSON without a line end, e.g. {"messages":[{"role":"user","content":"Hi"}],"tools":null}; false
  // after the last one. Bytes that are no UTF-8 become U+FFFD; columns stand in the order asked for.
  virtual Result<bool> next(std::string& json) = 0;
};

// One column of strings.
class ParquetStrings {
 public:
  virtual ~ParquetStrings() = default;
  // The next row's value, byte for byte, valid until the next call; `null` tells an absent one. False after the last row.
  virtual Result<bool> next(std::string_view& value, bool& null) = 0;
};

class ParquetFile {
 public:
  // A regular file, not a link.
  static Result<std::shared_ptr<const ParquetFile>> open(const std::string& path);
  // The same of an open descriptor; `name` is for messages.
  static Result<std::shared_ptr<const ParquetFile>> open(os::Fd fd, std::string name, size_t reader_bytes_max = kParquetReaderBytesMax);
  virtual ~ParquetFile() = default;

  virtual const std::string& name() const = 0;
  virtual int64_t row_count() const = 0;
  virtual size_t row_group_count() const = 0;
  virtual int64_t row_group_rows(size_t row_group) const = 0;
  // Names of the top-level columns, in the file's order.
  virtual std::vector<std::string> columns() const = 0;
  virtual bool has_column(std::string_view column) const = 0;

  // All rows from the start of `first_row_group` to the end of the file, or of one row group only. data_invalid, with the names
  // there are, when a column is absent. REQUIRES: first_row_group <= row_group_count().
  virtual Result<std::unique_ptr<ParquetRows>> rows(const std::vector<std::string>& columns, size_t first_row_group = 0,
                                                    size_t row_groups = SIZE_MAX) const = 0;
  // The same of a flat column of strings (data_invalid when it is of another type).
  virtual Result<std::unique_ptr<ParquetStrings>> strings(const std::string& column, size_t first_row_group = 0,
                                                          size_t row_groups = SIZE_MAX) const = 0;
};

}  // namespace cairn::dataset
