#include "dataset/shard_reader.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "codec/bytes.h"
#include "dataset/shard_format.h"

namespace cairn::dataset {
namespace {

constexpr size_t kReadBytes = 256 * 1024;
constexpr std::string_view kIndexEnding = ".index", kMetadataEnding = ".metadata", kLossEnding = ".loss";

uint64_t load_u64(const uint8_t* bytes) {
  return codec::ByteReader({bytes, 8}).u64();
}

Error disagree(const std::string& name, std::string_view ending, uint64_t says, uint64_t holds) {
  return Error(Code::kDataCorrupt, fmt::format("{}{} says {} tokens, {} holds {}", name, ending, says, name, holds),
               "copy the shard and its .index and .metadata again, or tokenize again");
}

}  // namespace

Result<std::optional<ShardReader::Part>> ShardReader::open_part(const os::Directory& folder, const std::string& relative) {
  auto file = folder.open_file(relative);
  if (file) {
    std::optional<Part> part(std::in_place);
    part->relative = relative;
    part->stat = file->stat;
    part->fd = std::move(file->fd);
    return part;
  }
  if (file.error().code() == Code::kFileNotFound) return std::optional<Part>();
  if (file.error().code() == Code::kPathTypeConflict) {
    return Error(Code::kDataInvalid, fmt::format("{}/{} is a link or no regular file", folder.shown_as(), relative),
                 "put a copy of the file in its place");
  }
  return file.error();
}

Result<ShardReader> ShardReader::open(const std::string& path) {
  size_t slash = path.rfind('/');
  std::string parent = os::parent_path(path);
  CAIRN_TRY(os::Directory folder, os::Directory::open(parent));
  return open(std::make_shared<const os::Directory>(std::move(folder)), path.substr(slash == std::string::npos ? 0 : slash + 1));
}

Result<ShardReader> ShardReader::open(std::shared_ptr<const os::Directory> folder, std::string relative) {
  ShardReader shard;
  shard.folder_ = std::move(folder);
  shard.relative_ = std::move(relative);
  shard.name_ = shard.folder_->shown_as() + "/" + shard.relative_;
  CAIRN_TRY(std::optional<Part> ids, open_part(*shard.folder_, shard.relative_));
  if (!ids) return Error(Code::kDataMissingOnVolume, shard.name_ + " does not exist");
  shard.ids_ = std::move(*ids);
  CAIRN_TRY(shard.index_, open_part(*shard.folder_, shard.relative_ + std::string(kIndexEnding)));
  CAIRN_TRY(shard.loss_, open_part(*shard.folder_, shard.relative_ + std::string(kLossEnding)));

  std::optional<uint64_t> last_end;
  if (shard.index_) {
    uint64_t size = shard.index_->stat.size;
    if (size % 8 != 0) {
      return Error(Code::kDataCorrupt, fmt::format("{}{} has {} bytes, which is no multiple of 8", shard.name_, kIndexEnding, size));
    }
    shard.documents_ = size / 8;
    last_end = 0;
    if (size > 0) {
      uint8_t bytes[8];
      CAIRN_CHECK_OK(shard.read_part(*shard.index_, size - 8, bytes));
      last_end = load_u64(bytes);
    }
  }
  CAIRN_TRY(std::optional<std::string> metadata, shard.read_metadata());
  CAIRN_CHECK_OK(shard.set_width(metadata, last_end));
  CAIRN_CHECK_OK(shard.check_sizes(shard.metadata_tokens_, last_end));
  shard.close();
  return shard;
}

Result<std::optional<std::string>> ShardReader::read_metadata() const {
  CAIRN_TRY(std::optional<Part> part, open_part(*folder_, relative_ + std::string(kMetadataEnding)));
  if (!part) return std::optional<std::string>();
  CAIRN_TRY(std::string text, os::read_to_end(part->fd.get(), kShardMetadataBytesMax, name_ + std::string(kMetadataEnding)));
  return std::optional<std::string>(std::move(text));
}

Status ShardReader::set_width(const std::optional<std::string>& metadata_text, std::optional<uint64_t> last_end) {
  uint64_t size = ids_.stat.size;
  if (metadata_text) {
    CAIRN_TRY(ShardMetadata metadata, parse_shard_metadata(*metadata_text, name_ + std::string(kMetadataEnding)));
    tokenizer_ = metadata.tokenizer;
    token_size_ = metadata.token_size;
    metadata_tokens_ = metadata.tokens;
  } else if (size == 0) {
    token_size_ = 2;
  } else if (!last_end) {
    return Error(Code::kDataInvalid,
                 fmt::format("{} has neither {}{} nor {}{}: nothing says whether its tokens have 2 or 4 bytes", name_,
                             relative_, kMetadataEnding, relative_, kIndexEnding),
                 fmt::format("write a file {}{} with the line \"tokenizer|2\" or \"tokenizer|4\"", relative_, kMetadataEnding));
  } else if (size % 2 == 0 && size / 2 == *last_end) {
    token_size_ = 2;
  } else if (size % 4 == 0 && size / 4 == *last_end) {
    token_size_ = 4;
  } else {
    return disagree(name_, kIndexEnding, *last_end, size / 2).with_hint(
        fmt::format("{} has {} bytes, which is {} tokens neither of 2 nor of 4 bytes; copy the shard again", name_, size, *last_end));
  }
  if (size % token_size_ != 0) {
    return Error(Code::kDataCorrupt,
                 fmt::format("{} has {} bytes, which is no multiple of its token size {}", name_, size, token_size_),
                 "copy the shard again, or tokenize again");
  }
  tokens_ = size / token_size_;
  return ok();
}

Status ShardReader::check_sizes(std::optional<uint64_t> metadata_tokens, std::optional<uint64_t> last_end) const {
  if (metadata_tokens && *metadata_tokens != tokens_) return disagree(name_, kMetadataEnding, *metadata_tokens, tokens_);
  if (last_end && *last_end != tokens_) return disagree(name_, kIndexEnding, *last_end, tokens_);
  if (loss_ && loss_->stat.size != tokens_) return disagree(name_, kLossEnding, loss_->stat.size, tokens_);
  return ok();
}

Status ShardReader::read_part(Part& part, uint64_t offset, std::span<uint8_t> out) const {
  std::string shown = folder_->shown_as() + "/" + part.relative;
  if (!part.fd.valid()) {
    CAIRN_TRY(os::OpenFile file, folder_->open_file(part.relative));
    if (!file.stat.same_content_as(part.stat)) {
      return Error(Code::kFileChanged, shown + " is another file now than at the start", "leave shards alone while a run reads them");
    }
    part.fd = std::move(file.fd);
  }
  CAIRN_TRY(size_t count, os::read_full_at(part.fd.get(), offset, out, shown));
  if (count != out.size()) {
    return Error(Code::kFileChanged, fmt::format("{} had {} bytes and now ends at {}", shown, part.stat.size, offset + count),
                 "leave shards alone while a run reads them");
  }
  return ok();
}

Status ShardReader::read(uint64_t first, std::span<uint32_t> ids) {
  CAIRN_CHECK(first <= tokens_ && ids.size() <= tokens_ - first);
  while (!ids.empty()) {
    size_t count = std::min(ids.size(), kReadBytes / token_size_);
    scratch_.resize(count * token_size_);
    CAIRN_CHECK_OK(read_part(ids_, first * token_size_, scratch_));
    const uint8_t* from = scratch_.data();
    for (size_t i = 0; i < count; ++i, from += token_size_) {
      uint32_t low = static_cast<uint32_t>(from[0]) | static_cast<uint32_t>(from[1]) << 8;
      ids[i] = token_size_ == 2 ? low : low | static_cast<uint32_t>(from[2]) << 16 | static_cast<uint32_t>(from[3]) << 24;
    }
    first += count;
    ids = ids.subspan(count);
  }
  return ok();
}

Status ShardReader::read_loss(uint64_t first, std::span<uint8_t> learnt) {
  CAIRN_CHECK(first <= tokens_ && learnt.size() <= tokens_ - first);
  if (!loss_) {
    std::fill(learnt.begin(), learnt.end(), uint8_t{1});
    return ok();
  }
  CAIRN_CHECK_OK(read_part(*loss_, first, learnt));
  for (uint8_t& value : learnt) value = value != 0;
  return ok();
}

Status ShardReader::read_document_ends(uint64_t first, std::span<uint64_t> ends) {
  CAIRN_CHECK(documents_ && first <= *documents_ && ends.size() <= *documents_ - first);
  uint64_t before = 0;
  if (first > 0) {
    uint8_t bytes[8];
    CAIRN_CHECK_OK(read_part(*index_, (first - 1) * 8, bytes));
    before = load_u64(bytes);
  }
  for (size_t done = 0; done < ends.size();) {
    size_t count = std::min(ends.size() - done, kReadBytes / 8);
    scratch_.resize(count * 8);
    CAIRN_CHECK_OK(read_part(*index_, (first + done) * 8, scratch_));
    for (size_t i = 0; i < count; ++i, ++done) {
      uint64_t end = load_u64(scratch_.data() + i * 8);
      if (end < before || end > tokens_) {
        return Error(Code::kDataCorrupt, fmt::format("{}{}: document {} ends at {}, after one that ends at {}, of {} tokens", name_,
                                                     kIndexEnding, first + done, end, before, tokens_));
      }
      ends[done] = before = end;
    }
  }
  return ok();
}

void ShardReader::close() {
  ids_.fd.reset();
  if (index_) index_->fd.reset();
  if (loss_) loss_->fd.reset();
}

}  // namespace cairn::dataset
