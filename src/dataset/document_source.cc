#include "dataset/document_source.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "dataset/parquet_file.h"
#include "dataset/utf8_repair.h"
#include "os/tree.h"

namespace cairn::dataset {
namespace {

constexpr size_t kBlockBytes = 4 * 1024 * 1024;
constexpr uint64_t kBlockRows = 128 * 1024;  // of Parquet: rows without text have no bytes
constexpr size_t kFilesMax = 20'000'000;
constexpr size_t kFolderDepthMax = 64;

enum class Kind : uint8_t { kOther, kText, kJsonLines, kParquet };

struct InputFile {
  std::string path;
  Kind kind = Kind::kText;
  uint64_t size = 0;
};

Kind kind_of(std::string_view path) {
  size_t slash = path.rfind('/');
  std::string_view name = path.substr(slash == std::string_view::npos ? 0 : slash + 1);
  size_t dot = name.rfind('.');
  std::string ending(dot == std::string_view::npos ? std::string_view() : name.substr(dot));
  std::transform(ending.begin(), ending.end(), ending.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  if (ending == ".txt" || ending == ".text" || ending == ".md") return Kind::kText;
  if (ending == ".jsonl" || ending == ".ndjson" || ending == ".json") return Kind::kJsonLines;
  if (ending == ".parquet") return Kind::kParquet;
  return Kind::kOther;
}

Error too_long(const std::string& what) {
  return Error(Code::kLimitExceeded, fmt::format("{} has more than {} MiB", what, kDocumentBytesMax >> 20), "split it");
}

void drop_byte_order_mark(std::string& bytes) {
  if (bytes.starts_with(kByteOrderMark)) bytes.erase(0, kByteOrderMark.size());
}

class Files {
 public:
  Status add(std::string input) {
    while (input.size() > 1 && input.ends_with('/')) input.pop_back();
    Result<os::FileStat> stat = os::posix_file_system().stat(input);
    if (!stat && stat.error().code() == Code::kFileNotFound) return Error(Code::kDataMissingOnVolume, input + " does not exist");
    if (!stat) return stat.error();
    if (stat->type == os::FileType::kFile) {
      Kind kind = kind_of(input);
      return add_file({input, kind == Kind::kOther ? Kind::kText : kind, stat->size});
    }
    if (stat->type == os::FileType::kOther) return Error(Code::kDataInvalid, input + " is neither a file nor a folder");
    // The person who named a link means what it points to.
    CAIRN_TRY(os::Directory folder, os::Directory::open(input));
    size_t first = files.size();
    CAIRN_CHECK_OK(walk(folder, 0));
    std::sort(files.begin() + static_cast<std::ptrdiff_t>(first), files.end(),
              [](const InputFile& a, const InputFile& b) { return a.path < b.path; });
    return ok();
  }

  std::vector<InputFile> files;
  uint64_t total_bytes = 0;
  PassedOver passed_over;

 private:
  void pass_over(uint64_t& count, const std::string& path) {
    ++count;
    if (passed_over.first.size() < PassedOver::kNamedMax) passed_over.first.push_back(path);
  }

  Status add_file(InputFile file) {
    if (file.size == 0) pass_over(passed_over.empty, file.path);
    if (files.size() >= kFilesMax) return Error(Code::kLimitExceeded, fmt::format("more than {} files", kFilesMax));
    total_bytes += file.size;
    files.push_back(std::move(file));
    return ok();
  }

  Status walk(const os::Directory& folder, size_t depth) {
    if (depth > kFolderDepthMax) {
      return Error(Code::kLimitExceeded, fmt::format("{} lies more than {} folders deep", folder.shown_as(), kFolderDepthMax));
    }
    CAIRN_TRY(std::vector<os::TreeEntry> entries, folder.list());
    for (const os::TreeEntry& entry : entries) {
      std::string path = folder.shown_as() + "/" + entry.name;
      if (entry.name.starts_with('.')) {
        pass_over(passed_over.other, path);
        continue;
      }
      switch (entry.stat.type) {
        case os::FileType::kDirectory: {
          CAIRN_TRY(os::Directory below, folder.open_directory(entry.name));
          CAIRN_CHECK_OK(walk(below, depth + 1));
          break;
        }
        case os::FileType::kFile: {
          Kind kind = kind_of(entry.name);
          if (kind == Kind::kOther) pass_over(passed_over.other, path);
          else CAIRN_CHECK_OK(add_file({std::move(path), kind, entry.stat.size}));
          break;
        }
        case os::FileType::kSymlink:
        case os::FileType::kOther:
          return Error(Code::kDataInvalid, path + " is a link or no regular file", "name what it points to as an input of its own");
      }
    }
    return ok();
  }
};

class Source final : public DocumentSource {
 public:
  Source(DocumentSourceOptions options, Files files) : options_(std::move(options)), files_(std::move(files)) {}

  size_t file_count() const override { return files_.files.size(); }
  uint64_t total_bytes() const override { return files_.total_bytes; }
  const PassedOver& passed_over() const override { return files_.passed_over; }

  Result<bool> next(DocumentBlock& block) override {
    while (at_ < files_.files.size()) {
      const InputFile& file = files_.files[at_];
      block = DocumentBlock();
      block.file = file.path;
      bool more = true;
      switch (file.kind) {
        case Kind::kOther:
        case Kind::kText:
          CAIRN_CHECK_OK(read_text(file, block));
          more = false;
          break;
        case Kind::kJsonLines: {
          CAIRN_TRY(more, read_lines(file, block));
          break;
        }
        case Kind::kParquet: {
          CAIRN_TRY(more, read_parquet(file, block));
          break;
        }
      }
      if (!more) ++at_;
      if (!block.bytes.empty() || !block.text_ends.empty() || block.read_bytes > 0) return true;
    }
    return false;
  }

 private:
  static Result<os::OpenFile> open_file(const std::string& path) {
    CAIRN_TRY(os::Directory folder, os::Directory::open(os::parent_path(path)));
    size_t slash = path.rfind('/');
    return folder.open_file(std::string_view(path).substr(slash == std::string::npos ? 0 : slash + 1));
  }

  Status read_text(const InputFile& file, DocumentBlock& block) {
    CAIRN_TRY(os::OpenFile open, open_file(file.path));
    Result<std::string> text = os::read_to_end(open.fd.get(), kDocumentBytesMax, file.path);
    if (!text && text.error().code() == Code::kLimitExceeded) {
      return too_long(file.path + " is one document and").with_hint("make JSONL of it, one document a line");
    }
    if (!text) return text.error();
    block.bytes = std::move(*text);
    block.read_bytes = block.bytes.size();
    drop_byte_order_mark(block.bytes);
    block.text_ends.push_back(block.bytes.size());
    return ok();
  }

  // Whole lines of some kBlockBytes; false at the end of the file.
  Result<bool> read_lines(const InputFile& file, DocumentBlock& block) {
    bool at_start = !lines_.fd.valid();
    if (at_start) {
      CAIRN_TRY(lines_, open_file(file.path));
      next_line_ = 1;
      carried_.clear();
    }
    block.json_lines = true;
    block.first = next_line_;
    block.bytes = std::move(carried_);
    carried_.clear();
    size_t searched = 0;
    while (true) {
      size_t before = block.bytes.size();
      block.bytes.resize(before + kBlockBytes);
      auto* to = reinterpret_cast<uint8_t*>(block.bytes.data() + before);
      CAIRN_TRY(size_t count, os::read_full(lines_.fd.get(), {to, kBlockBytes}, file.path));
      block.bytes.resize(before + count);
      block.read_bytes += count;
      if (at_start && before == 0) drop_byte_order_mark(block.bytes);
      if (count < kBlockBytes) {
        lines_.fd.reset();
        return false;
      }
      size_t end = std::string_view(block.bytes).substr(searched).rfind('\n');
      if (end != std::string_view::npos) {
        end += searched;
        carried_.assign(block.bytes, end + 1);
        block.bytes.resize(end + 1);
        next_line_ += static_cast<uint64_t>(std::count(block.bytes.begin(), block.bytes.end(), '\n'));
        return true;
      }
      searched = block.bytes.size();
      if (searched > kDocumentBytesMax) return too_long(fmt::format("{}: line {}", file.path, next_line_));
    }
  }

  Result<bool> read_parquet(const InputFile& file, DocumentBlock& block) {
    if (!strings_) {
      CAIRN_TRY(std::shared_ptr<const ParquetFile> parquet, ParquetFile::open(file.path));
      CAIRN_TRY(strings_, parquet->strings(options_.text_key));
      rows_left_ = static_cast<uint64_t>(parquet->row_count());
      row_ = 0;
      unread_bytes_ = file.size;
    }
    block.first = row_ + 1;
    std::string_view text;
    bool null = false;
    while (block.bytes.size() < kBlockBytes && block.text_ends.size() < kBlockRows) {
      CAIRN_TRY(bool more, strings_->next(text, null));
      if (!more) {
        strings_.reset();
        block.read_bytes += unread_bytes_;
        return false;
      }
      ++row_;
      if (text.size() > kDocumentBytesMax) return too_long(fmt::format("{}: row {}", file.path, row_));
      block.bytes += text;
      block.text_ends.push_back(block.bytes.size());
    }
    // Nobody knows how many stored bytes these rows were; all rows are taken to be alike.
    uint64_t rows = row_ + 1 - block.first;
    block.read_bytes = static_cast<uint64_t>(static_cast<double>(unread_bytes_) * static_cast<double>(rows) / static_cast<double>(rows_left_));
    unread_bytes_ -= block.read_bytes;
    rows_left_ -= rows;
    return true;
  }

  const DocumentSourceOptions options_;
  Files files_;
  size_t at_ = 0;
  // Of the JSONL file that is being read
  os::OpenFile lines_;
  std::string carried_;
  uint64_t next_line_ = 1;
  // Of the Parquet file
  std::unique_ptr<ParquetStrings> strings_;
  uint64_t row_ = 0, rows_left_ = 0, unread_bytes_ = 0;
};

}  // namespace

std::string PassedOver::text() const {
  uint64_t count = other + empty;
  if (count == 0) return std::string();
  std::vector<std::string> kinds;
  if (empty > 0) kinds.push_back(fmt::format("{} empty", empty));
  if (other > 0) kinds.push_back(fmt::format("{} no .txt, .text, .md, .jsonl, .ndjson, .json or .parquet file", other));
  return fmt::format("{} input{} passed over ({}): {}{}", count, count == 1 ? " was" : "s were", fmt::join(kinds, ", "),
                     fmt::join(first, ", "), count > first.size() ? ", …" : "");
}

Result<std::unique_ptr<DocumentSource>> DocumentSource::open(DocumentSourceOptions options) {
  Files files;
  for (const std::string& input : options.inputs) CAIRN_CHECK_OK(files.add(input));
  if (files.files.empty()) {
    return Error(Code::kDataInvalid, fmt::format("no file of documents in {} ({} other files)", fmt::join(options.inputs, ", "), files.passed_over.other),
                 "documents are .txt, .text, .md, .jsonl, .ndjson, .json and .parquet files");
  }
  return std::unique_ptr<DocumentSource>(std::make_unique<Source>(std::move(options), std::move(files)));
}

}  // namespace cairn::dataset
