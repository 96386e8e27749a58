// The footer of a Parquet file: its schema as a tree with the levels of Dremel's encoding, and where the pages of each column lie.
// Checked whole: whoever holds a ParquetFooter need not ask whether its offsets lie in the file. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "codec/bytes.h"

namespace cairn::dataset {

inline constexpr size_t kParquetSchemaDepthMax = 32;
// Names repeat in the paths of all that lies below them: of one path, and of all paths together.
inline constexpr size_t kParquetPathBytesMax = 64 * 1024;
inline constexpr size_t kParquetPathsBytesMax = 64 * 1024 * 1024;
// A run of nulls takes a few bytes however long it is, so nothing else bounds what a small file makes its reader do.
inline constexpr int64_t kParquetRowsMax = 4'000'000'000;

enum class ParquetType : uint8_t { kBoolean, kInt32, kInt64, kInt96, kFloat, kDouble, kByteArray, kFixedByteArray };

// A leaf has one column of pages.
struct ParquetLeaf {
  std::string path;  // "messages.list.element.role"
  ParquetType type = ParquetType::kByteArray;
  bool is_unsigned = false;
  uint8_t def_level_max = 0, rep_level_max = 0;
};

struct ParquetNode {
  enum class Kind { kStruct, kList, kLeaf };
  std::string name;
  Kind kind = Kind::kLeaf;
  uint8_t def_level = 0;          // from this definition level on the value is there, below it is null
  uint8_t element_def_level = 0;  // list: from this one on it has an element
  uint8_t element_rep_level = 0;  // list: the repetition level of a further element
  std::vector<ParquetNode> children;  // of a struct; the one element of a list
  size_t leaf = 0;                // first leaf at or below, in ParquetFooter::leaves
  size_t leaf_count = 0;
  std::string unsupported;        // why this cannot be read; empty when it can
};

enum class ParquetCodec : uint8_t { kNone, kSnappy, kGzip, kLzo, kBrotli, kLz4, kZstd, kLz4Raw };

struct ParquetChunk {
  ParquetCodec codec = ParquetCodec::kNone;
  int64_t values = 0;  // entries, nulls included
  uint64_t offset = 0, size = 0;
};

struct ParquetRowGroup {
  int64_t rows = 0;
  std::vector<ParquetChunk> chunks;  // one a leaf
};

struct ParquetFooter {
  int64_t rows = 0;
  std::vector<ParquetNode> columns;
  std::vector<ParquetLeaf> leaves;
  std::vector<ParquetRowGroup> row_groups;
};

// `data_end` is where the footer starts: all pages lie before it. `name` is for messages.
Result<ParquetFooter> parse_parquet_footer(codec::ByteView footer, uint64_t data_end, const std::string& name);

}  // namespace cairn::dataset
