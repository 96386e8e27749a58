// The entries of one column of a Parquet file, page by page through its row groups: for each entry its repetition and definition
// level and, where there is one, its value. Holds one page and the dictionary of the row group, out of a memory that the columns
// of a reader share. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dataset/parquet_encoding.h"
#include "dataset/parquet_footer.h"
#include "os/fd.h"

namespace cairn::dataset {

// Where a file's bytes come from; outlives the readers.
struct ParquetInput {
  os::Fd fd;
  std::string name;
  ParquetFooter footer;
  size_t reader_bytes_max = 0;  // of each reader
};

// What the columns of one reader may still allocate.
struct ParquetMemory {
  size_t bytes_left = 0;
};

class ParquetColumn {
 public:
  // Entries of the row groups from `first` to before `last`. Nothing is read yet.
  ParquetColumn(std::shared_ptr<const ParquetInput> input, std::shared_ptr<ParquetMemory> memory, size_t leaf, size_t first_row_group,
                size_t last_row_group);

  // Moves to the next entry (the first call: to the first); at_end() after the last. data_corrupt, format_unsupported (an encoding
  // or codec, by name).
  Status advance();
  bool at_end() const { return at_end_; }
  uint32_t rep_level() const { return rep_level_; }
  uint32_t def_level() const { return def_level_; }
  bool has_value() const { return def_level_ == leaf_.def_level_max; }
  const ParquetLeaf& leaf() const { return leaf_; }
  // The value of this entry, by the type of the leaf; valid until the next advance. REQUIRES: has_value().
  std::string_view bytes() const { return bytes_; }
  int64_t integer() const { return integer_; }  // a boolean is 0 or 1
  double number() const { return number_; }

 private:
  struct Buffer {
    std::unique_ptr<uint8_t[]> data;
    size_t size = 0, capacity = 0;
    codec::ByteView view() const { return {data.get(), size}; }
  };
  struct PageHeader;
  struct Value {
    std::string_view bytes;
    int64_t integer = 0;
    double number = 0;
  };

  Error corrupt(std::string_view what) const;
  Error unsupported(std::string_view what) const;
  Status start_chunk();
  Status end_chunk();
  Status next_page();
  Result<size_t> read_header(PageHeader& header);
  Status check_header(const PageHeader& header, uint64_t room) const;
  Status take_memory(size_t bytes);
  // Uninitialised: a size that lies costs nothing until it is filled.
  Status resize(Buffer& buffer, size_t count);
  Status read_at(uint64_t offset, std::span<uint8_t> out) const;
  Status unpack(codec::ByteView stored, size_t raw_size, Buffer& out, size_t keep) const;
  Status load_dictionary(const PageHeader& header, codec::ByteView stored);
  Status load_data(const PageHeader& header, codec::ByteView stored);
  Status load_data_v2(const PageHeader& header, codec::ByteView stored);
  Status start_levels_v1(codec::ByteView& page);
  Status start_values(int64_t encoding, codec::ByteView values);
  bool read_plain(codec::ByteView& from, Value& value) const;
  Status read_value();

  std::shared_ptr<const ParquetInput> input_;
  std::shared_ptr<ParquetMemory> memory_;
  const ParquetLeaf& leaf_;
  size_t leaf_index_, row_group_, last_row_group_;
  // Of the chunk
  bool in_chunk_ = false;
  uint64_t position_ = 0, chunk_end_ = 0;
  int64_t entries_left_ = 0, rows_seen_ = 0;
  std::vector<Value> dictionary_;
  bool has_dictionary_ = false;
  Buffer stored_, page_, dictionary_page_;
  // Of the page
  int64_t page_entries_left_ = 0;
  HybridReader rep_levels_, def_levels_, indexes_;
  enum class Values { kPlain, kBooleanRuns, kDictionary } values_ = Values::kPlain;
  codec::ByteView plain_;
  uint32_t boolean_bit_ = 0;
  // Of the entry
  bool at_end_ = false;
  uint32_t rep_level_ = 0, def_level_ = 0;
  std::string_view bytes_;
  int64_t integer_ = 0;
  double number_ = 0;
};

// Decompresses into exactly `out`; false when it cannot be. REQUIRES: none, snappy, gzip or zstd.
bool parquet_decompress(ParquetCodec codec, codec::ByteView stored, std::span<uint8_t> out);

}  // namespace cairn::dataset
