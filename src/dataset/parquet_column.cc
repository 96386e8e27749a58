#include "dataset/parquet_column.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>
#include <zlib.h>

#include "base/check.h"
#include "dataset/parquet_file.h"
#include "dataset/parquet_thrift.h"

namespace cairn::dataset {
namespace {

constexpr int64_t kDataPage = 0, kIndexPage = 1, kDictionaryPage = 2, kDataPageV2 = 3;
constexpr int64_t kPlain = 0, kPlainDictionary = 2, kRle = 3, kRleDictionary = 8;
// A dictionary's values are unpacked eight times as large; writers stop at some 1 MiB.
constexpr size_t kDictionaryBytesMax = 64 * 1024 * 1024;
constexpr size_t kHeaderBytesFirst = 4 * 1024, kHeaderBytesMax = 16 * 1024 * 1024;

std::string encoding_name(int64_t encoding) {
  constexpr std::string_view kNames[] = {"PLAIN", "GROUP_VAR_INT", "PLAIN_DICTIONARY", "RLE", "BIT_PACKED", "DELTA_BINARY_PACKED",
                                         "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY", "RLE_DICTIONARY", "BYTE_STREAM_SPLIT"};
  if (encoding >= 0 && encoding < static_cast<int64_t>(std::size(kNames))) return std::string(kNames[encoding]);
  return fmt::format("encoding {}", encoding);
}

std::string_view codec_name(ParquetCodec codec) {
  switch (codec) {
    case ParquetCodec::kNone: return "none";
    case ParquetCodec::kSnappy: return "snappy";
    case ParquetCodec::kGzip: return "gzip";
    case ParquetCodec::kLzo: return "LZO";
    case ParquetCodec::kBrotli: return "Brotli";
    case ParquetCodec::kLz4: return "LZ4";
    case ParquetCodec::kZstd: return "zstd";
    case ParquetCodec::kLz4Raw: return "LZ4";
  }
  return "";
}

uint32_t width_of(uint32_t largest) { return static_cast<uint32_t>(std::bit_width(largest)); }

uint64_t load(codec::ByteView& from, size_t count) {
  codec::ByteReader reader(from.first(count));
  from = from.subspan(count);
  return count == 4 ? reader.u32() : reader.u64();
}

}  // namespace

struct ParquetColumn::PageHeader {
  int64_t type = -1, raw_size = -1, stored_size = -1, crc = 0;
  bool has_crc = false;
  int64_t values = -1, encoding = -1, def_encoding = kRle, rep_encoding = kRle;
  int64_t def_bytes = 0, rep_bytes = 0;  // v2
  bool compressed = true;                // v2

  void parse(ThriftReader& in);
  void parse_inner(ThriftReader& in, int32_t kind);
};

void ParquetColumn::PageHeader::parse_inner(ThriftReader& in, int32_t kind) {
  ThriftReader::Field field;
  bool v2 = kind == 8;
  while (in.next(field)) {
    if (field.id == 1) values = in.integer(field);
    else if (field.id == (v2 ? 4 : 2)) encoding = in.integer(field);
    else if (kind == 5 && field.id == 3) def_encoding = in.integer(field);
    else if (kind == 5 && field.id == 4) rep_encoding = in.integer(field);
    else if (v2 && field.id == 5) def_bytes = in.integer(field);
    else if (v2 && field.id == 6) rep_bytes = in.integer(field);
    else if (v2 && field.id == 7) compressed = in.boolean(field);
    else in.skip(field);
  }
}

void ParquetColumn::PageHeader::parse(ThriftReader& in) {
  ThriftReader::Field field;
  while (in.next(field)) {
    if (field.id == 1) {
      type = in.integer(field);
    } else if (field.id == 2) {
      raw_size = in.integer(field);
    } else if (field.id == 3) {
      stored_size = in.integer(field);
    } else if (field.id == 4) {
      crc = in.integer(field);
      has_crc = true;
    } else if ((field.id == 5 || field.id == 7 || field.id == 8) && in.structure(field)) {
      parse_inner(in, field.id);
    } else {
      in.skip(field);
    }
  }
}

ParquetColumn::ParquetColumn(std::shared_ptr<const ParquetInput> input, std::shared_ptr<ParquetMemory> memory, size_t leaf,
                             size_t first_row_group, size_t last_row_group)
    : input_(std::move(input)), memory_(std::move(memory)), leaf_(input_->footer.leaves[leaf]), leaf_index_(leaf),
      row_group_(first_row_group), last_row_group_(last_row_group) {}

Status ParquetColumn::take_memory(size_t bytes) {
  if (bytes > memory_->bytes_left) {
    return Error(Code::kLimitExceeded, fmt::format("{}: a page and the dictionary of each column need more than {} MiB, in column {}", input_->name,
                                                   input_->reader_bytes_max >> 20, leaf_.path),
                 "write it with smaller pages");
  }
  memory_->bytes_left -= bytes;
  return ok();
}

Status ParquetColumn::resize(Buffer& buffer, size_t count) {
  if (count > buffer.capacity) {
    CAIRN_CHECK_OK(take_memory(count - buffer.capacity));
    buffer.data.reset();
    buffer.data.reset(new uint8_t[count]);
    buffer.capacity = count;
  }
  buffer.size = count;
  return ok();
}

Error ParquetColumn::corrupt(std::string_view what) const {
  return Error(Code::kDataCorrupt, fmt::format("{}: column {}, row group {}: {}", input_->name, leaf_.path, row_group_, what));
}

Error ParquetColumn::unsupported(std::string_view what) const {
  return Error(Code::kFormatUnsupported, fmt::format("{}: column {} uses {}, which is not built", input_->name, leaf_.path, what),
               "write it with plain or dictionary encoding and snappy, gzip or zstd");
}

Status ParquetColumn::read_at(uint64_t offset, std::span<uint8_t> out) const {
  CAIRN_TRY(size_t count, os::read_full_at(input_->fd.get(), offset, out, input_->name));
  if (count != out.size()) return Error(Code::kFileChanged, input_->name + " became shorter while it was read");
  return ok();
}

Status ParquetColumn::start_chunk() {
  const ParquetRowGroup& group = input_->footer.row_groups[row_group_];
  const ParquetChunk& chunk = group.chunks[leaf_index_];
  bool known = chunk.codec == ParquetCodec::kNone || chunk.codec == ParquetCodec::kSnappy || chunk.codec == ParquetCodec::kGzip ||
               chunk.codec == ParquetCodec::kZstd;
  if (!known) return unsupported(std::string(codec_name(chunk.codec)) + " compression");
  // Without lists there is one entry a row; in them at least one.
  if (leaf_.rep_level_max == 0 ? chunk.values != group.rows : chunk.values < group.rows) {
    return corrupt(fmt::format("it has {} entries for {} rows", chunk.values, group.rows));
  }
  position_ = chunk.offset;
  chunk_end_ = chunk.offset + chunk.size;
  entries_left_ = chunk.values;
  rows_seen_ = 0;
  page_entries_left_ = 0;
  has_dictionary_ = false;
  dictionary_.clear();
  in_chunk_ = true;
  return ok();
}

Status ParquetColumn::end_chunk() {
  int64_t rows = input_->footer.row_groups[row_group_].rows;
  if (rows_seen_ != rows) return corrupt(fmt::format("its pages have {} rows, the row group {}", rows_seen_, rows));
  in_chunk_ = false;
  ++row_group_;
  return ok();
}

Status ParquetColumn::advance() {
  while (!in_chunk_ || entries_left_ == 0) {
    if (in_chunk_) CAIRN_CHECK_OK(end_chunk());
    if (row_group_ >= last_row_group_) {
      at_end_ = true;
      return ok();
    }
    CAIRN_CHECK_OK(start_chunk());
  }
  while (page_entries_left_ == 0) CAIRN_CHECK_OK(next_page());
  --page_entries_left_;
  --entries_left_;
  rep_level_ = 0;
  def_level_ = 0;
  if (leaf_.rep_level_max > 0 && !rep_levels_.next(rep_level_)) return corrupt("a page ends in its repetition levels");
  if (leaf_.def_level_max > 0 && !def_levels_.next(def_level_)) return corrupt("a page ends in its definition levels");
  if (rep_level_ > leaf_.rep_level_max || def_level_ > leaf_.def_level_max) return corrupt("a level is above its maximum");
  if (rep_level_ == 0) ++rows_seen_;
  if (rows_seen_ == 0) return corrupt("its first row begins in the middle of a list");
  return has_value() ? read_value() : ok();
}

Result<size_t> ParquetColumn::read_header(PageHeader& header) {
  uint64_t room = chunk_end_ - position_;
  for (size_t bytes = kHeaderBytesFirst;; bytes *= 16) {
    codec::Bytes head(std::min<uint64_t>(bytes, room));
    CAIRN_CHECK_OK(read_at(position_, head));
    ThriftReader in(head);
    header = PageHeader();
    header.parse(in);
    if (in.ok()) return in.position();
    if (!in.ran_out() || head.size() == room || bytes >= kHeaderBytesMax) return corrupt("a page header cannot be read");
  }
}

Status ParquetColumn::check_header(const PageHeader& header, uint64_t room) const {
  if (header.stored_size < 0 || header.raw_size < 0 || static_cast<uint64_t>(header.stored_size) > room) {
    return corrupt(fmt::format("a page says that it has {} bytes, {} are left", header.stored_size, room));
  }
  if (header.raw_size > kParquetPageBytesMax || header.stored_size > kParquetPageBytesMax) {
    return Error(Code::kLimitExceeded, fmt::format("{}: column {} has a page of {} bytes, more than {}", input_->name, leaf_.path,
                                                   std::max(header.raw_size, header.stored_size), kParquetPageBytesMax));
  }
  if (header.type < kDataPage || header.type > kDataPageV2) return corrupt(fmt::format("a page is of type {}", header.type));
  if (header.type != kIndexPage && header.values < 0) return corrupt("a page does not say how many values it has");
  return ok();
}

Status ParquetColumn::next_page() {
  if (position_ == chunk_end_) return corrupt(fmt::format("its pages end {} entries too early", entries_left_));
  PageHeader header;
  CAIRN_TRY(size_t header_bytes, read_header(header));
  position_ += header_bytes;
  CAIRN_CHECK_OK(check_header(header, chunk_end_ - position_));
  auto stored_size = static_cast<size_t>(header.stored_size);
  CAIRN_CHECK_OK(resize(stored_, stored_size));
  uint8_t* stored = stored_.data.get();
  CAIRN_CHECK_OK(read_at(position_, {stored, stored_size}));
  position_ += stored_size;
  if (header.has_crc && crc32(0, stored, static_cast<uInt>(stored_size)) != static_cast<uint32_t>(header.crc)) {
    return corrupt("a page's checksum does not match its bytes");
  }
  if (header.type == kIndexPage) return ok();
  if (header.type == kDictionaryPage) return load_dictionary(header, stored_.view());
  if (header.values > entries_left_) return corrupt(fmt::format("a page has {} entries, {} are left", header.values, entries_left_));
  CAIRN_CHECK_OK(header.type == kDataPage ? load_data(header, stored_.view()) : load_data_v2(header, stored_.view()));
  page_entries_left_ = header.values;
  return ok();
}

// Appends what `stored` decompresses to behind the first `keep` bytes of `out`, `raw_size` bytes in all.
Status ParquetColumn::unpack(codec::ByteView stored, size_t raw_size, Buffer& out, size_t keep) const {
  ParquetCodec codec = input_->footer.row_groups[row_group_].chunks[leaf_index_].codec;
  if (!parquet_decompress(codec, stored, {out.data.get() + keep, raw_size - keep})) {
    return corrupt(fmt::format("a page of {} bytes ({}) does not decompress to {}", stored.size(), codec_name(codec), raw_size - keep));
  }
  return ok();
}

Status ParquetColumn::load_dictionary(const PageHeader& header, codec::ByteView stored) {
  if (has_dictionary_) return corrupt("it has two dictionaries");
  if (header.encoding != kPlain && header.encoding != kPlainDictionary) return unsupported(encoding_name(header.encoding) + " dictionaries");
  if (leaf_.type == ParquetType::kBoolean) return corrupt("it has a dictionary of booleans");
  auto raw_size = static_cast<size_t>(header.raw_size);
  if (raw_size > kDictionaryBytesMax) {
    return Error(Code::kLimitExceeded, fmt::format("{}: column {} has a dictionary of {} bytes, more than {}", input_->name, leaf_.path,
                                                   raw_size, kDictionaryBytesMax));
  }
  CAIRN_CHECK_OK(resize(dictionary_page_, raw_size));
  CAIRN_CHECK_OK(unpack(stored, raw_size, dictionary_page_, 0));
  codec::ByteView rest = dictionary_page_.view();
  // Each value takes four bytes at least.
  size_t values_max = std::min<size_t>(static_cast<size_t>(header.values), raw_size / 4);
  if (values_max > dictionary_.capacity()) {
    CAIRN_CHECK_OK(take_memory((values_max - dictionary_.capacity()) * sizeof(Value)));
    dictionary_.reserve(values_max);
  }
  for (int64_t i = 0; i < header.values; ++i) {
    Value value;
    if (!read_plain(rest, value)) return corrupt(fmt::format("its dictionary ends after {} of {} values", i, header.values));
    dictionary_.push_back(value);
  }
  has_dictionary_ = true;
  return ok();
}

Status ParquetColumn::load_data(const PageHeader& header, codec::ByteView stored) {
  auto raw_size = static_cast<size_t>(header.raw_size);
  CAIRN_CHECK_OK(resize(page_, raw_size));
  CAIRN_CHECK_OK(unpack(stored, raw_size, page_, 0));
  codec::ByteView page = page_.view();
  if ((leaf_.rep_level_max > 0 && header.rep_encoding != kRle) || (leaf_.def_level_max > 0 && header.def_encoding != kRle)) {
    return unsupported("levels in an encoding other than RLE");
  }
  CAIRN_CHECK_OK(start_levels_v1(page));
  return start_values(header.encoding, page);
}

Status ParquetColumn::start_levels_v1(codec::ByteView& page) {
  struct Part {
    uint32_t level_max;
    HybridReader* reader;
  };
  for (Part part : {Part{leaf_.rep_level_max, &rep_levels_}, Part{leaf_.def_level_max, &def_levels_}}) {
    if (part.level_max == 0) continue;
    if (page.size() < 4) return corrupt("a page is too short for its levels");
    uint64_t size = load(page, 4);
    if (size > page.size()) return corrupt(fmt::format("a page has {} bytes of levels, but only {} bytes", size, page.size()));
    *part.reader = HybridReader(page.first(size), width_of(part.level_max));
    page = page.subspan(size);
  }
  return ok();
}

// The levels of v2 stand uncompressed before the values.
Status ParquetColumn::load_data_v2(const PageHeader& header, codec::ByteView stored) {
  uint64_t limit = std::min(stored.size(), static_cast<size_t>(header.raw_size));
  if (header.rep_bytes < 0 || header.def_bytes < 0 || static_cast<uint64_t>(header.rep_bytes) > limit ||
      static_cast<uint64_t>(header.def_bytes) > limit - static_cast<uint64_t>(header.rep_bytes)) {
    return corrupt(fmt::format("a page has {} and {} bytes of levels, but only {} bytes", header.rep_bytes, header.def_bytes, limit));
  }
  auto rep_bytes = static_cast<size_t>(header.rep_bytes), levels = rep_bytes + static_cast<size_t>(header.def_bytes);
  auto raw_size = static_cast<size_t>(header.raw_size);
  CAIRN_CHECK_OK(resize(page_, raw_size));
  uint8_t* page = page_.data.get();
  if (levels > 0) std::memcpy(page, stored.data(), levels);
  codec::ByteView values = stored.subspan(levels);
  if (header.compressed && raw_size > levels) {
    CAIRN_CHECK_OK(unpack(values, raw_size, page_, levels));
  } else if (!parquet_decompress(ParquetCodec::kNone, header.compressed ? codec::ByteView() : values, {page + levels, raw_size - levels})) {
    return corrupt("a page that is not compressed has another size than it says");
  }
  codec::ByteView view = page_.view();
  rep_levels_ = HybridReader(view.first(rep_bytes), width_of(leaf_.rep_level_max));
  def_levels_ = HybridReader(view.subspan(rep_bytes, levels - rep_bytes), width_of(leaf_.def_level_max));
  return start_values(header.encoding, view.subspan(levels));
}

Status ParquetColumn::start_values(int64_t encoding, codec::ByteView values) {
  plain_ = values;
  boolean_bit_ = 0;
  if (encoding == kPlain) {
    values_ = Values::kPlain;
    return ok();
  }
  if (encoding == kRle && leaf_.type == ParquetType::kBoolean) {
    values_ = Values::kBooleanRuns;
    // Its length, which the page's own end tells as well.
    indexes_ = HybridReader(values.size() < 4 ? codec::ByteView() : values.subspan(4), 1);
    return ok();
  }
  if (encoding != kPlainDictionary && encoding != kRleDictionary) return unsupported(encoding_name(encoding));
  if (!has_dictionary_) return corrupt("a page refers to a dictionary that is not there");
  values_ = Values::kDictionary;
  // A page of nulls only may hold nothing at all.
  uint32_t width = values.empty() ? 0u : values[0];
  if (width > 32) return corrupt(fmt::format("its dictionary indexes have {} bits", width));
  indexes_ = HybridReader(values.subspan(values.empty() ? 0 : 1), width);
  return ok();
}

bool ParquetColumn::read_plain(codec::ByteView& from, Value& value) const {
  size_t count = leaf_.type == ParquetType::kInt64 || leaf_.type == ParquetType::kDouble ? 8 : 4;
  if (from.size() < count) return false;
  uint64_t bits = load(from, count);
  switch (leaf_.type) {
    case ParquetType::kInt32:
      value.integer = leaf_.is_unsigned ? static_cast<int64_t>(bits) : static_cast<int32_t>(bits);
      return true;
    case ParquetType::kInt64:
      value.integer = static_cast<int64_t>(bits);
      return true;
    case ParquetType::kFloat:
      value.number = std::bit_cast<float>(static_cast<uint32_t>(bits));
      return true;
    case ParquetType::kDouble:
      value.number = std::bit_cast<double>(bits);
      return true;
    case ParquetType::kByteArray:
      if (bits > from.size()) return false;
      value.bytes = codec::as_text(from.first(bits));
      from = from.subspan(bits);
      return true;
    case ParquetType::kBoolean:
    case ParquetType::kInt96:
    case ParquetType::kFixedByteArray:
      break;
  }
  return false;
}

Status ParquetColumn::read_value() {
  if (values_ == Values::kDictionary) {
    uint32_t index = 0;
    if (!indexes_.next(index)) return corrupt("a page ends in its values");
    if (index >= dictionary_.size()) return corrupt(fmt::format("a page has dictionary index {} of {}", index, dictionary_.size()));
    bytes_ = dictionary_[index].bytes;
    integer_ = dictionary_[index].integer;
    number_ = dictionary_[index].number;
    return ok();
  }
  if (values_ == Values::kBooleanRuns) {
    uint32_t value = 0;
    if (!indexes_.next(value)) return corrupt("a page ends in its values");
    integer_ = value;
    return ok();
  }
  if (leaf_.type == ParquetType::kBoolean) {
    if (plain_.empty()) return corrupt("a page ends in its values");
    integer_ = plain_[0] >> boolean_bit_ & 1;
    boolean_bit_ = (boolean_bit_ + 1) % 8;
    if (boolean_bit_ == 0) plain_ = plain_.subspan(1);
    return ok();
  }
  Value value;
  if (!read_plain(plain_, value)) return corrupt("a page ends in its values");
  bytes_ = value.bytes;
  integer_ = value.integer;
  number_ = value.number;
  return ok();
}

}  // namespace cairn::dataset
