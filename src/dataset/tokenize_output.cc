#include "dataset/tokenize_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include <fmt/format.h>

#include "dataset/permutation.h"
#include "dataset/shard_format.h"

namespace cairn::dataset {
namespace {

constexpr size_t kSpoolBufferIds = 256 * 1024;

codec::ByteView bytes_of(std::span<const uint32_t> ids) { return {reinterpret_cast<const uint8_t*>(ids.data()), ids.size_bytes()}; }

}  // namespace

TokenizeOutput::~TokenizeOutput() {
  if (partial_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(partial_, ignored);
}

Status TokenizeOutput::prepare() {
  os::FileSystem& files = os::posix_file_system();
  std::error_code error;
  output_ = std::filesystem::weakly_canonical(options_.output, error).string();
  while (output_.size() > 1 && output_.back() == '/') output_.pop_back();
  if (error || output_.size() < 2) return Error(Code::kUsage, fmt::format("'{}' is no folder to write to", options_.output));
  auto entries = files.list(output_, {}, 1);
  if (!entries && entries.error().code() != Code::kFileNotFound) return std::move(entries).error();
  if (entries && !entries->empty()) {
    return Error(Code::kFileExists, fmt::format("{} is not empty (it holds {})", options_.output, entries->front().name),
                 "choose a new or an empty folder");
  }
  CAIRN_CHECK_OK(files.make_directories(os::parent_path(output_), 0755));
  std::string partial = output_ + ".partial";
  Status made = files.make_directory(partial, 0755);
  if (!made && made.error().code() == Code::kFileExists) {
    return Error(Code::kFileExists, fmt::format("{} is there: another tokenize is writing it, or one was killed", partial),
                 fmt::format("when none is running: rm -r {}", partial));
  }
  if (made) partial_ = std::move(partial);
  return made;
}

Status TokenizeOutput::open_spool() {
  spool_ = Spool();
  std::string path = partial_ + "/." + shard_file_name(rank_, true) + ".unshuffled.tmp";
  static_cast<void>(unlink(path.c_str()));
  spool_.fd = os::Fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!spool_.fd.valid()) return Error::from_errno(errno, "create " + path);
  if (unlink(path.c_str()) != 0) return Error::from_errno(errno, "unlink " + path);
  return ok();
}

Status TokenizeOutput::open_shard() {
  shard_tokens_ = shard_documents_ = 0;
  open_ = true;
  if (options_.shuffle) return open_spool();
  CAIRN_TRY(writer_, ShardWriter::create(os::posix_file_system(), partial_ + "/" + shard_file_name(rank_, false), token_size_,
                                         options_.tokenizer_name));
  return ok();
}

Status TokenizeOutput::append(std::span<const uint32_t> ids) {
  if (!open_) CAIRN_CHECK_OK(open_shard());
  if (options_.shuffle) {
    spool_.buffer.insert(spool_.buffer.end(), ids.begin(), ids.end());
    if (spool_.buffer.size() >= kSpoolBufferIds) CAIRN_CHECK_OK(flush_spool());
    spool_.ends.push_back(spool_.flushed + spool_.buffer.size());
  } else {
    CAIRN_CHECK_OK(writer_->append(ids));
  }
  tokens_ += ids.size();
  shard_tokens_ += ids.size();
  ++shard_documents_;
  if (shard_tokens_ >= options_.max_tokens_per_shard || shard_documents_ >= kDocumentsPerShardMax) return close_shard();
  return ok();
}

Status TokenizeOutput::flush_spool() {
  CAIRN_CHECK_OK(os::write_all_at(spool_.fd.get(), spool_.flushed * sizeof(uint32_t), bytes_of(spool_.buffer), "temporary file in " + partial_));
  spool_.flushed += spool_.buffer.size();
  spool_.buffer.clear();
  return ok();
}

Status TokenizeOutput::write_shuffled() {
  CAIRN_CHECK_OK(flush_spool());
  CAIRN_TRY(writer_, ShardWriter::create(os::posix_file_system(), partial_ + "/" + shard_file_name(rank_, true), token_size_,
                                         options_.tokenizer_name));
  Permutation order(spool_.ends.size(), Permutation::key_of(options_.seed, rank_));
  std::vector<uint32_t> ids;
  for (uint64_t place = 0; place < spool_.ends.size(); ++place) {
    uint64_t document = order.at(place);
    uint64_t start = document == 0 ? 0 : spool_.ends[document - 1];
    ids.resize(spool_.ends[document] - start);
    std::span<uint8_t> bytes(reinterpret_cast<uint8_t*>(ids.data()), ids.size() * sizeof(uint32_t));
    CAIRN_TRY(size_t count, os::read_full_at(spool_.fd.get(), start * sizeof(uint32_t), bytes, "temporary file in " + partial_));
    if (count != bytes.size()) return Error(Code::kIoError, fmt::format("a temporary file in {} lost its end", partial_));
    CAIRN_CHECK_OK(writer_->append(ids));
  }
  spool_ = Spool();
  return ok();
}

Status TokenizeOutput::close_shard() {
  if (options_.shuffle) CAIRN_CHECK_OK(write_shuffled());
  CAIRN_CHECK_OK(writer_->finish());
  writer_.reset();
  open_ = false;
  ++rank_;
  return ok();
}

Status TokenizeOutput::finish() {
  if (open_) CAIRN_CHECK_OK(close_shard());
  os::FileSystem& files = os::posix_file_system();
  CAIRN_CHECK_OK(files.sync_directory(partial_));
  CAIRN_CHECK_OK(files.rename(partial_, output_));  // over an empty folder, too
  partial_.clear();
  return files.sync_directory(os::parent_path(output_));
}

}  // namespace cairn::dataset
