#include "dataset/sft_files.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/check.h"
#include "codec/digest.h"
#include "dataset/json_value.h"
#include "dataset/line_index.h"
#include "dataset/parquet_file.h"
#include "dataset/sft_file_list.h"
#include "dataset/utf8_repair.h"
#include "os/fd.h"
#include "os/tree.h"

namespace cairn::dataset {

namespace {

constexpr size_t kReadBytes = 1024 * 1024;
constexpr std::array<std::string_view, 5> kColumns = {"messages", "prompt", "completion", "tools", "tool_defs"};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

struct DataFile {
  std::string path;  // absolute or as given
  std::string name;  // for messages
  bool parquet = false;
  os::EntryStat stat;
  uint64_t first_row = 0;
  LineIndex lines;    // in the file, or of Parquet in the scratch file
  uint64_t end = 0;   // of its bytes there
};

Result<os::OpenFile> open_data_file(const std::string& path) {
  os::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return Error::from_errno(errno, path);
  CAIRN_TRY(os::EntryStat stat, os::stat_fd(fd.get(), path));
  if (stat.type != os::FileType::kFile) return Error(Code::kDataInvalid, fmt::format("{} is no regular file", path));
  return os::OpenFile{std::move(fd), stat};
}

Result<os::EntryStat> stat_of(const std::string& path) {
  CAIRN_TRY(os::OpenFile open, open_data_file(path));
  return open.stat;
}

// A file that no name leads to: it is gone with the process.
Result<os::Fd> make_scratch_file(std::string folder) {
  if (folder.empty()) {
    const char* base = std::getenv("TMPDIR");
    folder = base && *base ? base : "/tmp";
  }
  std::string path = folder + "/cairn-rows-XXXXXX";
  os::Fd fd(::mkostemp(path.data(), O_CLOEXEC));
  if (!fd.valid()) return Error::from_errno(errno, fmt::format("making a scratch file in {}", folder));
  if (::unlink(path.c_str()) != 0) return Error::from_errno(errno, path);
  return fd;
}

Error too_many_rows(const DataFile& file, uint64_t rows_max) {
  return Error(Code::kLimitExceeded, fmt::format("{}: the data set has more than {} rows", file.name, rows_max));
}

// Finds lines in bytes as they come. `rows_max` is of the whole data set.
class LineFinder {
 public:
  LineFinder(DataFile& file, uint64_t begin, uint64_t rows_max)
      : file_(file), offset_(begin), line_begin_(begin), rows_max_(rows_max) {}

  // These bytes belong to no line.
  void pass_over(size_t count) { offset_ += count; }
  Status feed(std::string_view bytes) {
    for (size_t at = 0; at < bytes.size();) {
      if (!in_text_) {
        // Blank so far: leading white space belongs to no line.
        if (bytes[at] == '\n') ++number_;
        if (is_blank(bytes[at])) {
          ++at;
          continue;
        }
        in_text_ = true;
        line_begin_ = offset_ + at;
        if (file_.first_row + file_.lines.size() >= rows_max_) return too_many_rows(file_, rows_max_);
        if (!file_.lines.add(line_begin_)) return too_far();
      }
      const void* found = std::memchr(bytes.data() + at, '\n', bytes.size() - at);
      size_t end = found ? static_cast<size_t>(static_cast<const char*>(found) - bytes.data()) : bytes.size();
      if (offset_ + end - line_begin_ > kJsonBytesMax) {
        return Error(Code::kLimitExceeded, fmt::format("{}, line {}: longer than {} MiB", file_.name, number_, kJsonBytesMax >> 20));
      }
      at = end;
      if (found) in_text_ = false;
    }
    offset_ += bytes.size();
    return ok();
  }

 private:
  Error too_far() const { return Error(Code::kLimitExceeded, fmt::format("{}: gigabytes of blank lines", file_.name)); }

  DataFile& file_;
  uint64_t offset_, line_begin_;
  const uint64_t rows_max_;
  uint64_t number_ = 1;
  bool in_text_ = false;
};

Status index_lines(DataFile& file, uint64_t rows_max) {
  CAIRN_TRY(os::OpenFile open, open_data_file(file.path));
  file.stat = open.stat;
  LineFinder finder(file, 0, rows_max);
  std::vector<uint8_t> buffer(kReadBytes);
  uint64_t offset = 0;
  for (;;) {
    CAIRN_TRY(size_t got, os::read_full_at(open.fd.get(), offset, buffer, file.path));
    std::string_view bytes(reinterpret_cast<const char*>(buffer.data()), got);
    if (offset == 0) {
      if (bytes.starts_with(kByteOrderMark)) {
        finder.pass_over(kByteOrderMark.size());
        bytes.remove_prefix(kByteOrderMark.size());
      }
      size_t first = bytes.find_first_not_of(" \t\r\n");
      if (first != std::string_view::npos && bytes[first] == '[') {
        return Error(Code::kDataInvalid, fmt::format("{} is one JSON list; expected one JSON object a line", file.name),
                     fmt::format("jq -c '.[]' {} > rows.jsonl", file.name));
      }
    }
    CAIRN_CHECK_OK(finder.feed(bytes));
    offset += got;
    if (got < buffer.size()) break;
  }
  file.end = offset;
  file.lines.shrink();
  return ok();
}

class Files final : public SftFiles {
 public:
  Files(std::string scratch_folder, uint64_t rows_max) : scratch_folder_(std::move(scratch_folder)), rows_max_(rows_max) {}

  Status add(const std::string& path, const std::string& name) {
    DataFile file;
    file.path = path;
    file.name = name;
    file.parquet = is_parquet_name(name);
    file.first_row = size_;
    CAIRN_CHECK_OK(file.parquet ? spool_parquet(file) : index_lines(file, rows_max_));
    size_ += file.lines.size();
    files_.push_back(std::move(file));
    return ok();
  }

  void finish(std::vector<std::string> left_aside) {
    left_aside_ = std::move(left_aside);
    codec::Sha256 digest;
    for (const DataFile& file : files_) digest.update(fmt::format("{}:{} {}\n", file.name.size(), file.name, file.stat.size));
    fingerprint_ = digest.finish().hex();
  }

  uint64_t size() const override { return size_; }
  const std::string& fingerprint() const override { return fingerprint_; }
  size_t file_count() const override { return files_.size(); }
  const std::vector<std::string>& left_aside() const override { return left_aside_; }

  Status read(uint64_t row, std::string& json) override {
    const DataFile& file = file_of(row);
    uint64_t line = row - file.first_row;
    uint64_t begin = file.lines.offset(line);
    uint64_t end = line + 1 < file.lines.size() ? file.lines.offset(line + 1) : file.end;
    json.resize(static_cast<size_t>(std::min<uint64_t>(end - begin, kJsonBytesMax + 1)));
    CAIRN_TRY(int fd, descriptor_of(file));
    std::span<uint8_t> bytes(reinterpret_cast<uint8_t*>(json.data()), json.size());
    CAIRN_TRY(size_t got, os::read_full_at(fd, begin, bytes, file.name));
    if (got < json.size()) return changed(file);
    json.resize(std::min(json.find('\n'), json.size()));
    return ok();
  }

  bool from_columns(uint64_t row) const override { return file_of(row).parquet; }

  std::string where(uint64_t row) override {
    const DataFile& file = file_of(row);
    uint64_t line = row - file.first_row;
    if (file.parquet) return fmt::format("{}, row {}", file.name, line + 1);
    auto number = line_number(file, file.lines.offset(line));
    return number ? fmt::format("{}, line {}", file.name, *number) : file.name;
  }

 private:
  static Error changed(const DataFile& file) {
    return Error(Code::kFileChanged, fmt::format("{} changed while it was being trained on", file.name));
  }

  Result<int> descriptor_of(const DataFile& file) {
    if (file.parquet) return scratch_.get();
    if (open_ != &file) {
      CAIRN_TRY(os::OpenFile open, open_data_file(file.path));
      if (open.stat.size != file.stat.size || open.stat.mtime_ns != file.stat.mtime_ns) return changed(file);
      open_fd_ = std::move(open.fd);
      open_ = &file;
    }
    return open_fd_.get();
  }

  const DataFile& file_of(uint64_t row) const {
    CAIRN_CHECK(row < size_);
    auto after = std::upper_bound(files_.begin(), files_.end(), row, [](uint64_t r, const DataFile& f) { return r < f.first_row; });
    return *(after - 1);
  }

  Result<uint64_t> line_number(const DataFile& file, uint64_t offset) {
    CAIRN_TRY(int fd, descriptor_of(file));
    std::vector<uint8_t> buffer(kReadBytes);
    uint64_t number = 1;
    for (uint64_t at = 0; at < offset;) {
      std::span<uint8_t> part(buffer.data(), static_cast<size_t>(std::min<uint64_t>(buffer.size(), offset - at)));
      CAIRN_TRY(size_t got, os::read_full_at(fd, at, part, file.name));
      if (got == 0) return changed(file);
      number += static_cast<uint64_t>(std::count(part.begin(), part.begin() + static_cast<ptrdiff_t>(got), '\n'));
      at += got;
    }
    return number;
  }

  Status spool_parquet(DataFile& file);

  std::string scratch_folder_;
  const uint64_t rows_max_;
  std::vector<DataFile> files_;
  uint64_t size_ = 0;
  os::Fd scratch_;
  uint64_t scratch_end_ = 0;
  std::string fingerprint_;
  std::vector<std::string> left_aside_;
  const DataFile* open_ = nullptr;
  os::Fd open_fd_;
};

Status Files::spool_parquet(DataFile& file) {
  CAIRN_TRY(std::shared_ptr<const ParquetFile> parquet, ParquetFile::open(file.path));
  std::vector<std::string> columns;
  for (std::string_view column : kColumns) {
    if (parquet->has_column(column)) columns.emplace_back(column);
  }
  bool whole = parquet->has_column("messages") || (parquet->has_column("prompt") && parquet->has_column("completion"));
  if (!whole) {
    return Error(Code::kDataInvalid, fmt::format("{} has neither a column 'messages' nor both 'prompt' and 'completion'; its columns: {}",
                                                 file.name, fmt::join(parquet->columns(), ", ")));
  }
  // Before anything is written: rows may be far more than the bytes of a file suggest.
  if (static_cast<uint64_t>(parquet->row_count()) > rows_max_ - size_) return too_many_rows(file, rows_max_);
  CAIRN_TRY(file.stat, stat_of(file.path));
  if (!scratch_.valid()) {
    CAIRN_TRY(scratch_, make_scratch_file(scratch_folder_));
  }
  CAIRN_TRY(std::unique_ptr<ParquetRows> rows, parquet->rows(columns));
  std::string json, buffer;
  LineFinder finder(file, scratch_end_, rows_max_);
  auto flush = [&]() -> Status {
    CAIRN_CHECK_OK(finder.feed(buffer));
    std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(buffer.data()), buffer.size());
    auto written = os::write_all_at(scratch_.get(), scratch_end_, bytes, "the scratch file");
    if (!written) {
      return Error(written.error().code(), fmt::format("writing the rows of {} to scratch: {}", file.name, written.error().message()),
                   "set TMPDIR to a folder with more space, or store the data as JSONL");
    }
    scratch_end_ += buffer.size();
    buffer.clear();
    return ok();
  };
  for (;;) {
    CAIRN_TRY(bool more, rows->next(json));
    if (!more) break;
    buffer += json;
    buffer += '\n';
    if (buffer.size() >= kReadBytes) CAIRN_CHECK_OK(flush());
  }
  CAIRN_CHECK_OK(flush());
  file.end = scratch_end_;
  file.lines.shrink();
  return ok();
}

}  // namespace

Result<std::unique_ptr<SftFiles>> SftFiles::open(const std::string& path, const std::string& scratch_folder, uint64_t rows_max) {
  struct ::stat facts {};
  if (::stat(path.c_str(), &facts) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) {
      return Error(Code::kDataMissingOnVolume, fmt::format("there is no file or folder {}", path), "check data.name");
    }
    return Error::from_errno(errno, path);
  }
  auto files = std::make_unique<Files>(scratch_folder, rows_max);
  SftFileList list;
  if (S_ISDIR(facts.st_mode)) {
    CAIRN_TRY(list, list_sft_files(path));
    for (const std::string& name : list.taken) CAIRN_CHECK_OK(files->add(path + "/" + name, name));
  } else {
    size_t slash = path.rfind('/');
    CAIRN_CHECK_OK(files->add(path, slash == std::string::npos ? path : path.substr(slash + 1)));
  }
  if (files->size() == 0) {
    std::string what = files->file_count() == 0 ? "no file ending in .jsonl, .ndjson, .json or .parquet" : "no row";
    return Error(Code::kDataInvalid, fmt::format("{} holds {}", path, what), "docs/formats/sft-data.md says what is read");
  }
  files->finish(std::move(list.left_aside));
  return Result<std::unique_ptr<SftFiles>>(std::move(files));
}

}  // namespace cairn::dataset
