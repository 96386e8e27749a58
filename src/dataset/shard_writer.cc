#include "dataset/shard_writer.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "dataset/shard_format.h"

namespace cairn::dataset {
namespace {

constexpr size_t kBufferBytes = 1024 * 1024;
constexpr std::string_view kTemporaryEnding = ".tmp";

}  // namespace

ShardWriter::ShardWriter(os::FileSystem& files, std::string path, uint32_t token_size, std::string tokenizer_name)
    : files_(files), path_(std::move(path)), token_size_(token_size), tokenizer_name_(std::move(tokenizer_name)) {
  ids_.path = path_;
  index_.path = path_ + ".index";
}

ShardWriter::~ShardWriter() {
  for (File* file : {&ids_, &index_}) {
    if (!file->file) continue;
    file->file.reset();
    static_cast<void>(files_.remove(file->path + std::string(kTemporaryEnding)).has_value());
  }
}

Result<std::unique_ptr<ShardWriter>> ShardWriter::create(os::FileSystem& files, const std::string& path, uint32_t token_size,
                                                         std::string tokenizer_name) {
  CAIRN_CHECK(token_size == 2 || token_size == 4);
  CAIRN_CHECK(path.ends_with(kShardEnding));
  CAIRN_TRY(bool taken, files.exists(path));
  if (taken) return Error(Code::kFileExists, path + " exists", "choose an empty folder, or remove the old shards");
  std::unique_ptr<ShardWriter> writer(new ShardWriter(files, path, token_size, std::move(tokenizer_name)));
  CAIRN_CHECK_OK(writer->start(writer->ids_));
  CAIRN_CHECK_OK(writer->start(writer->index_));
  return writer;
}

Status ShardWriter::start(File& file) {
  std::string temporary = file.path + std::string(kTemporaryEnding);
  Status removed = files_.remove(temporary);
  if (!removed && removed.error().code() != Code::kFileNotFound) return removed;
  CAIRN_TRY(file.file, files_.create_exclusive(temporary, 0644));
  return ok();
}

Status ShardWriter::flush(File& file) {
  CAIRN_CHECK_OK(file.file->write(file.buffer));
  file.buffer.clear();
  return ok();
}

Error ShardWriter::does_not_fit(std::span<const uint32_t> ids) const {
  uint32_t largest = *std::max_element(ids.begin(), ids.end());
  return Error(Code::kDataInvalid, fmt::format("{}: id {} does not fit its 2-byte tokens", path_, largest));
}

Status ShardWriter::append(std::span<const uint32_t> ids) {
  for (std::span<const uint32_t> rest = ids; !rest.empty();) {
    size_t count = std::min(rest.size(), kBufferBytes / token_size_);
    size_t at = ids_.buffer.size();
    ids_.buffer.resize(at + count * token_size_);
    uint8_t* to = ids_.buffer.data() + at;
    uint32_t all = 0;
    for (uint32_t id : rest.first(count)) {
      all |= id;
      for (uint32_t byte = 0; byte < token_size_; ++byte) *to++ = static_cast<uint8_t>(id >> (8 * byte));
    }
    if (token_size_ == 2 && all >= kNarrowVocabSizeMax) return does_not_fit(rest.first(count));
    if (ids_.buffer.size() >= kBufferBytes) CAIRN_CHECK_OK(flush(ids_));
    rest = rest.subspan(count);
  }
  tokens_ += ids.size();
  ++documents_;
  codec::ByteWriter(index_.buffer).u64(tokens_);
  if (index_.buffer.size() >= kBufferBytes) CAIRN_CHECK_OK(flush(index_));
  return ok();
}

Status ShardWriter::seal(File& file) {
  CAIRN_CHECK_OK(flush(file));
  CAIRN_CHECK_OK(file.file->sync());
  CAIRN_CHECK_OK(file.file->close());
  CAIRN_CHECK_OK(files_.rename(file.path + std::string(kTemporaryEnding), file.path));
  file.file.reset();
  return ok();
}

Status ShardWriter::finish() {
  CAIRN_CHECK_OK(seal(ids_));
  CAIRN_CHECK_OK(seal(index_));
  // Both names are durable before the metadata say that the shard is complete.
  CAIRN_CHECK_OK(files_.sync_directory(os::parent_path(path_)));
  ShardMetadata metadata;
  metadata.tokenizer = tokenizer_name_;
  metadata.token_size = token_size_;
  metadata.tokens = tokens_;
  return files_.write_file_atomic(path_ + ".metadata", codec::as_bytes(format_shard_metadata(metadata)), 0644);
}

}  // namespace cairn::dataset
