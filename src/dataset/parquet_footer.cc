#include "dataset/parquet_footer.h"

#include <optional>

#include <fmt/format.h>

#include "dataset/parquet_thrift.h"

namespace cairn::dataset {
namespace {

using Field = ThriftReader::Field;
constexpr size_t kSchemaElementsMax = 100'000;
constexpr uint64_t kPagesStart = 4;  // after the magic number

enum class Repetition : uint8_t { kRequired, kOptional, kRepeated };

// A row of the flattened schema. Converted and logical types are numbers of Parquet's thrift file; -1 where absent.
struct SchemaElement {
  std::string name;
  int64_t type = -1, converted = -1, logical = -1;
  Repetition repetition = Repetition::kRequired;
  int64_t children = 0;
  bool is_signed = true;
};

constexpr int64_t kConvertedUtf8 = 0, kConvertedMap = 1, kConvertedMapKeyValue = 2, kConvertedList = 3, kConvertedEnum = 4,
                  kConvertedUnsigned8 = 11, kConvertedUnsigned64 = 14, kConvertedInt64 = 18, kConvertedJson = 19;
constexpr int64_t kLogicalString = 1, kLogicalMap = 2, kLogicalList = 3, kLogicalEnum = 4, kLogicalInteger = 10, kLogicalUnknown = 11,
                  kLogicalJson = 12;

std::string_view logical_name(int64_t logical) {
  constexpr std::string_view kNames[] = {"", "string", "map", "list", "enum", "decimal", "date", "time", "timestamp", "", "integer",
                                         "unknown", "json", "bson", "uuid", "float16", "variant", "geometry", "geography"};
  return logical > 0 && logical < static_cast<int64_t>(std::size(kNames)) ? kNames[logical] : "another logical type";
}

std::string_view converted_name(int64_t converted) {
  constexpr std::string_view kNames[] = {"utf8", "map", "map", "list", "enum", "decimal", "date", "time", "time", "timestamp",
                                         "timestamp"};
  if (converted >= 0 && converted < static_cast<int64_t>(std::size(kNames))) return kNames[converted];
  return converted == 20 ? "bson" : converted == 21 ? "interval" : "another converted type";
}

// Walks a footer; fails like ThriftReader does, and says of what.
class Parser {
 public:
  Parser(codec::ByteView footer, uint64_t data_end, const std::string& name) : in_(footer), data_end_(data_end), name_(name) {}
  Result<ParquetFooter> parse();

 private:
  Error corrupt(std::string_view what) const { return Error(Code::kDataCorrupt, fmt::format("{}: {}", name_, what)); }
  Error encrypted() const { return Error(Code::kFormatUnsupported, name_ + " is encrypted"); }
  void parse_element(SchemaElement& element);
  void parse_logical(SchemaElement& element);
  Status parse_schema(const Field& field);
  Status parse_row_groups(const Field& field);
  Status parse_row_group(ParquetRowGroup& group);
  Status parse_chunk(const ParquetLeaf& leaf, ParquetChunk& chunk);
  Status parse_chunk_metadata(const ParquetLeaf& leaf, ParquetChunk& chunk);
  struct Levels {
    uint8_t def = 0, rep = 0;
  };
  Status build(ParquetNode& node, Levels levels, const std::string& parent, size_t depth, bool repeated_is_element);
  Status build_leaf(const SchemaElement& element, ParquetNode& node, Levels levels, const std::string& path);
  Result<std::string> extend_path(const std::string& parent, const std::string& name);
  Status build_list(const std::string& path, ParquetNode& node, Levels levels, size_t depth);

  ThriftReader in_;
  uint64_t data_end_;
  const std::string& name_;
  ParquetFooter footer_;
  std::vector<SchemaElement> elements_;
  size_t next_element_ = 0, path_bytes_ = 0;
};

void Parser::parse_logical(SchemaElement& element) {
  Field field;
  while (in_.next(field)) {
    element.logical = field.id;
    if (field.id != kLogicalInteger || field.type != ThriftReader::kStruct) {
      in_.skip(field);
      continue;
    }
    Field inner;
    while (in_.next(inner)) {
      if (inner.id == 2) element.is_signed = in_.boolean(inner);
      else in_.skip(inner);
    }
  }
}

void Parser::parse_element(SchemaElement& element) {
  Field field;
  while (in_.next(field)) {
    if (field.id == 1) element.type = in_.integer(field);
    else if (field.id == 3) element.repetition = static_cast<Repetition>(in_.integer(field) & 0xFF);
    else if (field.id == 4) element.name = in_.binary(field);
    else if (field.id == 5) element.children = in_.integer(field);
    else if (field.id == 6) element.converted = in_.integer(field);
    else if (field.id == 10 && in_.structure(field)) parse_logical(element);
    else in_.skip(field);
  }
}

Status Parser::parse_schema(const Field& field) {
  size_t count = in_.list(field, ThriftReader::kStruct);
  if (count > kSchemaElementsMax) {
    return Error(Code::kLimitExceeded, fmt::format("{}: its schema has {} elements, more than {}", name_, count, kSchemaElementsMax));
  }
  for (size_t i = 0; i < count && in_.ok(); ++i) parse_element(elements_.emplace_back());
  if (!in_.ok() || elements_.empty()) return corrupt("its schema cannot be read");
  for (const SchemaElement& element : elements_) {
    if (element.repetition > Repetition::kRepeated) return corrupt("its schema has a field that is neither required, optional nor repeated");
    if (element.children < 0 || element.children >= static_cast<int64_t>(count)) return corrupt("its schema has a wrong number of fields");
  }
  next_element_ = 1;
  for (int64_t i = 0; i < elements_[0].children; ++i) {
    CAIRN_CHECK_OK(build(footer_.columns.emplace_back(), Levels(), "", 1, false));
  }
  if (next_element_ != elements_.size()) return corrupt("its schema has fields that belong to nothing");
  return ok();
}

Result<std::string> Parser::extend_path(const std::string& parent, const std::string& name) {
  size_t size = parent.empty() ? name.size() : parent.size() + 1 + name.size();
  path_bytes_ += size;
  if (size > kParquetPathBytesMax || path_bytes_ > kParquetPathsBytesMax) {
    return Error(Code::kLimitExceeded, fmt::format("{}: the paths of its columns are longer than {} bytes, or than {} MiB in all", name_,
                                                   kParquetPathBytesMax, kParquetPathsBytesMax >> 20));
  }
  return parent.empty() ? name : parent + "." + name;
}

// `repeated_is_element`: the node is what a list repeats, and its repetition is already in `levels`.
Status Parser::build(ParquetNode& node, Levels levels, const std::string& parent, size_t depth, bool repeated_is_element) {
  if (next_element_ >= elements_.size()) return corrupt("its schema ends too early");
  if (depth > kParquetSchemaDepthMax) {
    return Error(Code::kLimitExceeded, fmt::format("{}: its schema is more than {} levels deep", name_, kParquetSchemaDepthMax));
  }
  const SchemaElement& element = elements_[next_element_++];
  std::string path;
  CAIRN_TRY(path, extend_path(parent, element.name));
  node.name = element.name;
  node.leaf = footer_.leaves.size();
  bool repeated = element.repetition == Repetition::kRepeated;
  if (!repeated_is_element) {
    if (repeated) {
      ++levels.rep;
      node.unsupported = path + " is repeated outside a list";
    }
    if (element.repetition != Repetition::kRequired) ++levels.def;
  }
  node.def_level = levels.def;
  // A group without fields is written by nobody, and a leaf always has a type.
  if (element.children == 0) {
    CAIRN_CHECK_OK(build_leaf(element, node, levels, path));
    node.leaf_count = 1;
    return ok();
  }
  bool is_map = element.logical == kLogicalMap || element.converted == kConvertedMap || element.converted == kConvertedMapKeyValue;
  bool is_list = element.logical == kLogicalList || element.converted == kConvertedList;
  if (is_list && element.children == 1) {
    CAIRN_CHECK_OK(build_list(path, node, levels, depth));
  } else {
    node.kind = ParquetNode::Kind::kStruct;
    if (is_map) node.unsupported = path + " is a map";
    for (int64_t i = 0; i < element.children; ++i) {
      CAIRN_CHECK_OK(build(node.children.emplace_back(), levels, path, depth + 1, false));
    }
  }
  node.leaf_count = footer_.leaves.size() - node.leaf;
  return ok();
}

Status Parser::build_list(const std::string& path, ParquetNode& node, Levels levels, size_t depth) {
  if (next_element_ >= elements_.size()) return corrupt("its schema ends too early");
  const SchemaElement& repeated = elements_[next_element_];
  if (repeated.repetition != Repetition::kRepeated) return corrupt(path + " is a list without a repeated field");
  node.kind = ParquetNode::Kind::kList;
  ++levels.def;
  ++levels.rep;
  node.element_def_level = levels.def;
  node.element_rep_level = levels.rep;
  // Today's writers put the element into the repeated group; old ones had no such group.
  bool is_element = repeated.children != 1 || repeated.name == "array" || repeated.name.ends_with("_tuple");
  std::string parent = path;
  if (!is_element) {
    ++next_element_;
    CAIRN_TRY(parent, extend_path(path, repeated.name));
  }
  return build(node.children.emplace_back(), levels, parent, depth + 1, is_element);
}

Status Parser::build_leaf(const SchemaElement& element, ParquetNode& node, Levels levels, const std::string& path) {
  if (element.type < 0 || element.type > static_cast<int64_t>(ParquetType::kFixedByteArray)) return corrupt(path + " has no type");
  node.kind = ParquetNode::Kind::kLeaf;
  ParquetLeaf& leaf = footer_.leaves.emplace_back();
  leaf.path = path;
  leaf.type = static_cast<ParquetType>(element.type);
  leaf.def_level_max = levels.def;
  leaf.rep_level_max = levels.rep;
  bool integer = leaf.type == ParquetType::kInt32 || leaf.type == ParquetType::kInt64;
  int64_t logical = element.logical, converted = element.converted;
  bool plain = logical < 0 && converted < 0;
  bool text = leaf.type == ParquetType::kByteArray &&
              (logical >= 0 ? logical == kLogicalString || logical == kLogicalEnum || logical == kLogicalJson
                            : converted == kConvertedUtf8 || converted == kConvertedEnum || converted == kConvertedJson);
  bool number = integer && (logical >= 0 ? logical == kLogicalInteger : converted >= kConvertedUnsigned8 && converted <= kConvertedInt64);
  leaf.is_unsigned = number && (logical >= 0 ? !element.is_signed : converted <= kConvertedUnsigned64);
  if (leaf.type == ParquetType::kInt96 || leaf.type == ParquetType::kFixedByteArray) {
    node.unsupported = path + (leaf.type == ParquetType::kInt96 ? " is of type INT96" : " is of type FIXED_LEN_BYTE_ARRAY");
  } else if (!plain && !text && !number && logical != kLogicalUnknown && node.unsupported.empty()) {
    node.unsupported = fmt::format("{} is a {}", path, logical >= 0 ? logical_name(logical) : converted_name(converted));
  }
  return ok();
}

Status Parser::parse_chunk_metadata(const ParquetLeaf& leaf, ParquetChunk& chunk) {
  int64_t type = -1, codec = -1, values = -1, size = -1, data = -1, dictionary = -1;
  Field field;
  while (in_.next(field)) {
    if (field.id == 1) type = in_.integer(field);
    else if (field.id == 4) codec = in_.integer(field);
    else if (field.id == 5) values = in_.integer(field);
    else if (field.id == 7) size = in_.integer(field);
    else if (field.id == 9) data = in_.integer(field);
    else if (field.id == 11) dictionary = in_.integer(field);
    else in_.skip(field);
  }
  if (!in_.ok()) return corrupt("its footer ends in column " + leaf.path);
  if (type != static_cast<int64_t>(leaf.type)) return corrupt(leaf.path + " has another type in a row group than in the schema");
  if (codec < 0 || codec > static_cast<int64_t>(ParquetCodec::kLz4Raw)) {
    return Error(Code::kFormatUnsupported, fmt::format("{}: column {} is compressed with codec {}", name_, leaf.path, codec));
  }
  // Some writers say 0 where there is no dictionary, and some where there are no data.
  int64_t start = data;
  if (dictionary >= static_cast<int64_t>(kPagesStart) && (dictionary < data || values == 0)) start = dictionary;
  auto data_end = static_cast<int64_t>(data_end_);
  if (values < 0 || size < 0 || start < static_cast<int64_t>(kPagesStart) || start > data_end || size > data_end - start) {
    return corrupt(fmt::format("column {} lies from byte {} over {} bytes, but the pages end at {}", leaf.path, start, size, data_end_));
  }
  chunk.codec = static_cast<ParquetCodec>(codec);
  chunk.values = values;
  chunk.offset = static_cast<uint64_t>(start);
  chunk.size = static_cast<uint64_t>(size);
  return ok();
}

Status Parser::parse_chunk(const ParquetLeaf& leaf, ParquetChunk& chunk) {
  bool found = false;
  Field field;
  while (in_.next(field)) {
    if (field.id == 1 && field.type == ThriftReader::kBinary) {
      if (!in_.binary(field).empty()) return Error(Code::kFormatUnsupported, fmt::format("{}: column {} lies in another file", name_, leaf.path));
    } else if (field.id == 3 && in_.structure(field)) {
      CAIRN_CHECK_OK(parse_chunk_metadata(leaf, chunk));
      found = true;
    } else if (field.id == 8) {
      return encrypted();
    } else {
      in_.skip(field);
    }
  }
  if (!in_.ok() || !found) return corrupt("a row group lacks column " + leaf.path);
  return ok();
}

Status Parser::parse_row_group(ParquetRowGroup& group) {
  group.rows = -1;
  Field field;
  while (in_.next(field)) {
    if (field.id == 1) {
      size_t count = in_.list(field, ThriftReader::kStruct);
      if (count != footer_.leaves.size() || !group.chunks.empty()) {
        return corrupt(fmt::format("a row group has {} columns, the schema {}", count, footer_.leaves.size()));
      }
      for (size_t i = 0; i < count; ++i) CAIRN_CHECK_OK(parse_chunk(footer_.leaves[i], group.chunks.emplace_back()));
    } else if (field.id == 3) {
      group.rows = in_.integer(field);
    } else {
      in_.skip(field);
    }
  }
  if (!in_.ok() || group.rows < 0 || group.chunks.size() != footer_.leaves.size()) return corrupt("a row group cannot be read");
  return ok();
}

Status Parser::parse_row_groups(const Field& field) {
  if (elements_.empty()) return corrupt("its row groups come before its schema");
  size_t count = in_.list(field, ThriftReader::kStruct);
  if (count > 0 && footer_.leaves.empty()) return corrupt("it has row groups but no columns");
  int64_t rows = 0;
  for (size_t i = 0; i < count && in_.ok(); ++i) {
    CAIRN_CHECK_OK(parse_row_group(footer_.row_groups.emplace_back()));
    if (footer_.row_groups.back().rows > kParquetRowsMax - rows) {
      return Error(Code::kLimitExceeded, fmt::format("{}: its row groups have more than {} rows", name_, kParquetRowsMax), "split it");
    }
    rows += footer_.row_groups.back().rows;
  }
  footer_.rows = rows;
  return ok();
}

Result<ParquetFooter> Parser::parse() {
  int64_t rows = -1;
  Field field;
  while (in_.next(field)) {
    if (field.id == 2 && elements_.empty()) CAIRN_CHECK_OK(parse_schema(field));
    else if (field.id == 3) rows = in_.integer(field);
    else if (field.id == 4 && footer_.row_groups.empty()) CAIRN_CHECK_OK(parse_row_groups(field));
    else if (field.id == 8) return encrypted();
    else in_.skip(field);
  }
  if (!in_.ok() || elements_.empty()) return corrupt("its footer cannot be read");
  if (rows != footer_.rows) return corrupt(fmt::format("its footer says {} rows, its row groups have {}", rows, footer_.rows));
  return std::move(footer_);
}

}  // namespace

Result<ParquetFooter> parse_parquet_footer(codec::ByteView footer, uint64_t data_end, const std::string& name) {
  return Parser(footer, data_end, name).parse();
}

}  // namespace cairn::dataset
