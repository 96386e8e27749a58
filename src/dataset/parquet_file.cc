#include "dataset/parquet_file.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/check.h"
#include "dataset/parquet_column.h"
#include "dataset/utf8_repair.h"
#include "os/tree.h"

namespace cairn::dataset {
namespace {

constexpr std::string_view kMagic = "PAR1", kEncryptedMagic = "PARE";
constexpr uint64_t kTrailerBytes = 8;  // u32 footer length, magic number

void append_json_string(std::string_view text, std::string& out) {
  std::string repaired;
  if (well_formed_prefix(text) != text.size()) {
    repair_utf8(text, repaired, nullptr);
    text = repaired;
  }
  out += '"';
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) >= 0x20) {
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
    }
  }
  out += '"';
}

void append_leaf(const ParquetColumn& column, std::string& out) {
  auto to = std::back_inserter(out);
  switch (column.leaf().type) {
    case ParquetType::kBoolean:
      out += column.integer() != 0 ? "true" : "false";
      return;
    case ParquetType::kInt32:
    case ParquetType::kInt64:
      if (column.leaf().is_unsigned) fmt::format_to(to, "{}", static_cast<uint64_t>(column.integer()));
      else fmt::format_to(to, "{}", column.integer());
      return;
    case ParquetType::kFloat:
    case ParquetType::kDouble:
      // JSON has no infinity.
      if (std::isfinite(column.number())) fmt::format_to(to, "{}", column.number());
      else out += "null";
      return;
    case ParquetType::kByteArray:
      append_json_string(column.bytes(), out);
      return;
    case ParquetType::kInt96:
    case ParquetType::kFixedByteArray:
      break;
  }
  CAIRN_CHECK(false && "a type that was refused before");
}

const std::string* find_unsupported(const ParquetNode& node) {
  if (!node.unsupported.empty()) return &node.unsupported;
  for (const ParquetNode& child : node.children) {
    if (const std::string* why = find_unsupported(child)) return why;
  }
  return nullptr;
}

// Puts the entries of all leaves together again, as Dremel's paper says: a value is there when its definition level reaches the
// node's, and a list goes on while the next entry's repetition level is the list's.
class Rows final : public ParquetRows {
 public:
  Rows(std::shared_ptr<const ParquetInput> input, std::vector<const ParquetNode*> nodes, size_t first, size_t last)
      : input_(std::move(input)), nodes_(std::move(nodes)) {
    for (size_t group = first; group < last; ++group) rows_left_ += input_->footer.row_groups[group].rows;
    auto memory = std::make_shared<ParquetMemory>(ParquetMemory{input_->reader_bytes_max});
    columns_.resize(input_->footer.leaves.size());
    for (const ParquetNode* node : nodes_) {
      for (size_t leaf = node->leaf; leaf < node->leaf + node->leaf_count; ++leaf) {
        columns_[leaf] = std::make_unique<ParquetColumn>(input_, memory, leaf, first, last);
      }
    }
  }

  Result<bool> next(std::string& json) override {
    json.clear();
    if (!started_) {
      started_ = true;
      for (const auto& column : columns_) {
        if (column) CAIRN_CHECK_OK(column->advance());
      }
    }
    if (rows_left_ == 0) {
      for (const auto& column : columns_) {
        if (column && !column->at_end()) return corrupt(*column, "has entries after the last row");
      }
      return false;
    }
    --rows_left_;
    json += '{';
    for (const ParquetNode* node : nodes_) {
      CAIRN_CHECK_OK(append_named(*node, 0, json));
      if (json.size() > kParquetRowBytesMax) return row_too_long();
    }
    json += '}';
    return true;
  }

 private:
  Error corrupt(const ParquetColumn& column, std::string_view what) const {
    return Error(Code::kDataCorrupt, fmt::format("{}: column {} {}", input_->name, column.leaf().path, what));
  }

  Error row_too_long() const {
    return Error(Code::kLimitExceeded, fmt::format("{}: a row has more than {} bytes", input_->name, kParquetRowBytesMax));
  }

  Status append_named(const ParquetNode& node, uint32_t rep_level, std::string& json) {
    if (json.back() != '{') json += ',';
    append_json_string(node.name, json);
    json += ':';
    return append(node, rep_level, json);
  }

  // `rep_level` is the one that the entries of this value must start with.
  Status append(const ParquetNode& node, uint32_t rep_level, std::string& json) {
    ParquetColumn& first = *columns_[node.leaf];
    if (json.size() > kParquetRowBytesMax) return ok();  // refused by next()
    if (first.at_end() || first.rep_level() != rep_level) return corrupt(first, "has other rows or list elements than its neighbours");
    if (first.def_level() < node.def_level) {
      json += "null";
      return consume_absent(node, rep_level, node.def_level);
    }
    switch (node.kind) {
      case ParquetNode::Kind::kLeaf:
        if (first.bytes().size() > kParquetRowBytesMax) return row_too_long();
        append_leaf(first, json);
        return first.advance();
      case ParquetNode::Kind::kStruct:
        json += '{';
        for (const ParquetNode& child : node.children) CAIRN_CHECK_OK(append_named(child, rep_level, json));
        json += '}';
        return ok();
      case ParquetNode::Kind::kList:
        return append_list(node, rep_level, first, json);
    }
    return ok();
  }

  Status append_list(const ParquetNode& node, uint32_t rep_level, ParquetColumn& first, std::string& json) {
    if (first.def_level() < node.element_def_level) {
      json += "[]";
      return consume_absent(node, rep_level, node.element_def_level);
    }
    json += '[';
    CAIRN_CHECK_OK(append(node.children[0], rep_level, json));
    while (!first.at_end() && first.rep_level() == node.element_rep_level && json.size() <= kParquetRowBytesMax) {
      json += ',';
      CAIRN_CHECK_OK(append(node.children[0], node.element_rep_level, json));
    }
    json += ']';
    return ok();
  }

  // One entry of each leaf below, all of which must say that there is nothing.
  Status consume_absent(const ParquetNode& node, uint32_t rep_level, uint32_t present_from) {
    for (size_t leaf = node.leaf; leaf < node.leaf + node.leaf_count; ++leaf) {
      ParquetColumn& column = *columns_[leaf];
      if (column.at_end() || column.rep_level() != rep_level || column.def_level() >= present_from) {
        return corrupt(column, "has other rows or list elements than its neighbours");
      }
      CAIRN_CHECK_OK(column.advance());
    }
    return ok();
  }

  std::shared_ptr<const ParquetInput> input_;
  std::vector<const ParquetNode*> nodes_;
  std::vector<std::unique_ptr<ParquetColumn>> columns_;  // by leaf; empty where not asked for
  int64_t rows_left_ = 0;
  bool started_ = false;
};

class Strings final : public ParquetStrings {
 public:
  Strings(const std::shared_ptr<const ParquetInput>& input, size_t leaf, size_t first, size_t last)
      : column_(input, std::make_shared<ParquetMemory>(ParquetMemory{input->reader_bytes_max}), leaf, first, last) {}
  Result<bool> next(std::string_view& value, bool& null) override {
    CAIRN_CHECK_OK(column_.advance());
    if (column_.at_end()) return false;
    null = !column_.has_value();
    value = null ? std::string_view() : column_.bytes();
    return true;
  }

 private:
  ParquetColumn column_;
};

class File final : public ParquetFile {
 public:
  explicit File(std::shared_ptr<const ParquetInput> input) : input_(std::move(input)) {}

  const std::string& name() const override { return input_->name; }
  int64_t row_count() const override { return footer().rows; }
  size_t row_group_count() const override { return footer().row_groups.size(); }
  int64_t row_group_rows(size_t row_group) const override { return footer().row_groups[row_group].rows; }
  std::vector<std::string> columns() const override {
    std::vector<std::string> names;
    for (const ParquetNode& node : footer().columns) names.push_back(node.name);
    return names;
  }
  bool has_column(std::string_view column) const override {
    return std::any_of(footer().columns.begin(), footer().columns.end(), [&](const ParquetNode& node) { return node.name == column; });
  }

  Result<std::unique_ptr<ParquetRows>> rows(const std::vector<std::string>& columns, size_t first, size_t count) const override {
    std::vector<const ParquetNode*> nodes;
    for (const std::string& column : columns) {
      CAIRN_TRY(const ParquetNode* node, find(column));
      if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
    }
    return std::unique_ptr<ParquetRows>(std::make_unique<Rows>(input_, std::move(nodes), first, end_of(first, count)));
  }

  Result<std::unique_ptr<ParquetStrings>> strings(const std::string& column, size_t first, size_t count) const override {
    CAIRN_TRY(const ParquetNode* node, find(column));
    if (node->kind != ParquetNode::Kind::kLeaf || footer().leaves[node->leaf].type != ParquetType::kByteArray) {
      return Error(Code::kDataInvalid, fmt::format("{}: column {} does not hold texts", input_->name, column));
    }
    return std::unique_ptr<ParquetStrings>(std::make_unique<Strings>(input_, node->leaf, first, end_of(first, count)));
  }

 private:
  const ParquetFooter& footer() const { return input_->footer; }
  size_t end_of(size_t first, size_t count) const {
    CAIRN_CHECK(first <= footer().row_groups.size());
    return first + std::min(count, footer().row_groups.size() - first);
  }
  Result<const ParquetNode*> find(const std::string& column) const {
    for (const ParquetNode& node : footer().columns) {
      if (node.name != column) continue;
      if (const std::string* why = find_unsupported(node)) {
        return Error(Code::kFormatUnsupported, fmt::format("{}: {}, which is not built", input_->name, *why),
                     "convert the column to texts, numbers, or lists and structs of them");
      }
      return &node;
    }
    return Error(Code::kDataInvalid, fmt::format("{} has no column {}; it has {}", input_->name, column, fmt::join(columns(), ", ")));
  }

  std::shared_ptr<const ParquetInput> input_;
};

Result<ParquetFooter> read_footer(const os::Fd& fd, uint64_t size, const std::string& name) {
  auto read = [&](uint64_t offset, std::span<uint8_t> out) -> Status {
    CAIRN_TRY(size_t count, os::read_full_at(fd.get(), offset, out, name));
    if (count != out.size()) return Error(Code::kFileChanged, name + " became shorter while it was read");
    return ok();
  };
  Error no_parquet(Code::kDataCorrupt, name + " is no Parquet file, or was cut off");
  uint8_t head[kMagic.size()], trailer[kTrailerBytes];
  if (size < kMagic.size() + kTrailerBytes) return no_parquet;
  CAIRN_CHECK_OK(read(0, head));
  CAIRN_CHECK_OK(read(size - kTrailerBytes, trailer));
  std::string_view magic = codec::as_text(codec::ByteView(trailer).subspan(4));
  if (magic == kEncryptedMagic) return Error(Code::kFormatUnsupported, name + " is encrypted");
  if (magic != kMagic || codec::as_text(head) != kMagic) return no_parquet;
  uint32_t footer_size = codec::ByteReader(trailer).u32();
  if (footer_size > kParquetFooterBytesMax) {
    return Error(Code::kLimitExceeded, fmt::format("{}: its footer has {} bytes, more than {}", name, footer_size, kParquetFooterBytesMax));
  }
  if (footer_size > size - kTrailerBytes - kMagic.size()) {
    return Error(Code::kDataCorrupt, fmt::format("{}: its footer says {} bytes, the file has {}", name, footer_size, size));
  }
  codec::Bytes footer(footer_size);
  uint64_t data_end = size - kTrailerBytes - footer_size;
  CAIRN_CHECK_OK(read(data_end, footer));
  return parse_parquet_footer(footer, data_end, name);
}

}  // namespace

Result<std::shared_ptr<const ParquetFile>> ParquetFile::open(const std::string& path) {
  CAIRN_TRY(os::Directory folder, os::Directory::open(os::parent_path(path)));
  size_t slash = path.rfind('/');
  CAIRN_TRY(os::OpenFile file, folder.open_file(std::string_view(path).substr(slash == std::string::npos ? 0 : slash + 1)));
  return open(std::move(file.fd), path);
}

Result<std::shared_ptr<const ParquetFile>> ParquetFile::open(os::Fd fd, std::string name, size_t reader_bytes_max) {
  CAIRN_TRY(os::EntryStat stat, os::stat_fd(fd.get(), name));
  auto input = std::make_shared<ParquetInput>();
  CAIRN_TRY(input->footer, read_footer(fd, stat.size, name));
  input->fd = std::move(fd);
  input->name = std::move(name);
  input->reader_bytes_max = reader_bytes_max;
  return std::shared_ptr<const ParquetFile>(std::make_shared<File>(std::move(input)));
}

}  // namespace cairn::dataset
