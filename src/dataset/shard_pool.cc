#include "dataset/shard_pool.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "codec/digest.h"
#include "dataset/shard_format.h"

namespace cairn::dataset {
namespace {

constexpr uint64_t kSampleTokens = 1024;

// Below `relative` of `root` ("" is the root itself).
Status find_shards(const std::shared_ptr<const os::Directory>& root, const std::string& relative, size_t depth,
                   std::vector<ShardReader>& found) {
  std::string shown = root->shown_as() + (relative.empty() ? "" : "/" + relative);
  if (depth > kShardFolderDepthMax) {
    return Error(Code::kLimitExceeded, fmt::format("{} lies more than {} folders deep", shown, kShardFolderDepthMax));
  }
  Result<std::vector<os::TreeEntry>> entries = std::vector<os::TreeEntry>();
  if (relative.empty()) {
    entries = root->list();
  } else {
    CAIRN_TRY(os::Directory folder, root->open_directory(relative));
    entries = folder.list();
  }
  if (!entries) return entries.error();
  for (const os::TreeEntry& entry : *entries) {
    std::string path = relative.empty() ? entry.name : relative + "/" + entry.name;
    if (entry.stat.type == os::FileType::kDirectory) {
      CAIRN_CHECK_OK(find_shards(root, path, depth + 1, found));
    } else if (entry.stat.type == os::FileType::kSymlink) {
      return Error(Code::kDataInvalid, fmt::format("{}/{} is a link; folders of shards may hold none", root->shown_as(), path),
                   "put what it points to in its place, or name that folder in data.paths");
    } else if (entry.name.ends_with(kShardEnding)) {
      if (found.size() >= kShardsMax) {
        return Error(Code::kLimitExceeded, fmt::format("{} holds more than {} shards", root->shown_as(), kShardsMax));
      }
      CAIRN_TRY(ShardReader shard, ShardReader::open(root, path));
      found.push_back(std::move(shard));
    }
  }
  return ok();
}

Status find_in(std::string path, std::vector<ShardReader>& found) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  Result<os::FileStat> stat = os::posix_file_system().stat(path);
  if (!stat && stat.error().code() == Code::kFileNotFound) {
    return Error(Code::kDataMissingOnVolume, path + " does not exist", "check data.paths");
  }
  if (!stat) return stat.error();
  if (stat->type == os::FileType::kFile && path.ends_with(kShardEnding)) {
    CAIRN_TRY(ShardReader shard, ShardReader::open(path));
    found.push_back(std::move(shard));
    return ok();
  }
  if (stat->type == os::FileType::kFile) {
    return Error(Code::kDataInvalid, path + " is neither a folder nor a shard (.ds)", "make shards of it: cairn tokenize");
  }
  CAIRN_TRY(os::Directory folder, os::Directory::open(path));
  return find_shards(std::make_shared<const os::Directory>(std::move(folder)), "", 0, found);
}

std::string joined(const std::vector<std::string>& paths) {
  std::string text;
  for (const std::string& path : paths) text += (text.empty() ? "" : ", ") + path;
  return text;
}

}  // namespace

Result<ShardPool> ShardPool::open(const std::vector<std::string>& paths) {
  ShardPool pool;
  for (const std::string& path : paths) CAIRN_CHECK_OK(find_in(path, pool.shards_));
  if (pool.shards_.empty()) {
    return Error(Code::kDataInvalid, fmt::format("no shard (*.ds) in {}", joined(paths)), "make shards of texts: cairn tokenize");
  }
  std::sort(pool.shards_.begin(), pool.shards_.end(),
            [](const ShardReader& a, const ShardReader& b) { return a.name() < b.name(); });
  std::vector<const ShardReader*> by_file;
  for (const ShardReader& shard : pool.shards_) {
    pool.starts_.push_back(pool.tokens_);
    pool.tokens_ += shard.tokens();
    pool.has_loss_ = pool.has_loss_ || shard.has_loss();
    by_file.push_back(&shard);
  }
  std::sort(by_file.begin(), by_file.end(), [](const ShardReader* a, const ShardReader* b) {
    return a->file_key() != b->file_key() ? a->file_key() < b->file_key() : a->name() < b->name();
  });
  for (size_t i = 1; i < by_file.size(); ++i) {
    if (by_file[i]->file_key() != by_file[i - 1]->file_key()) continue;
    return Error(Code::kDataInvalid,
                 fmt::format("{} and {} are the same file: data.paths counts it twice", by_file[i - 1]->name(), by_file[i]->name()));
  }
  return pool;
}

Result<std::string> ShardPool::fingerprint() {
  codec::Sha256 sha;
  codec::Bytes header;
  std::vector<uint32_t> sample;
  for (size_t i = 0; i < shards_.size(); ++i) {
    ShardReader& shard = shards_[i];
    header.clear();
    codec::ByteWriter out(header);
    out.prefixed(shard.relative());
    out.u64(shard.tokens());
    out.u8(static_cast<uint8_t>(shard.token_size()));
    sample.resize(std::min(shard.tokens(), kSampleTokens));
    if (!sample.empty()) touch(i);
    for (uint64_t first : {uint64_t{0}, shard.tokens() - sample.size()}) {
      CAIRN_CHECK_OK(shard.read(first, sample));
      for (uint32_t id : sample) out.u32(id);
    }
    sha.update(header);
  }
  return sha.finish().hex();
}

Result<std::vector<uint32_t>> ShardPool::last_ids(size_t shard, uint64_t documents) {
  std::vector<uint64_t> ends(documents);
  std::vector<uint32_t> last;
  touch(shard);
  CAIRN_CHECK_OK(shards_[shard].read_document_ends(0, ends));
  uint64_t start = 0;
  for (uint64_t end : ends) {
    if (end > start) CAIRN_CHECK_OK(shards_[shard].read(end - 1, {&last.emplace_back(), 1}));
    start = end;
  }
  return last;
}

size_t ShardPool::shard_at(uint64_t position) const {
  // The last one that starts at or before; empty shards before it start at the same place.
  auto after = std::upper_bound(starts_.begin(), starts_.end(), position);
  return static_cast<size_t>(after - starts_.begin()) - 1;
}

ShardPool::Place ShardPool::locate(uint64_t position) const {
  CAIRN_CHECK(position < tokens_);
  size_t shard = shard_at(position);
  return {&shards_[shard], position - starts_[shard]};
}

void ShardPool::touch(size_t shard) {
  auto found = std::find(open_.begin(), open_.end(), shard);
  if (found != open_.end()) {
    open_.splice(open_.begin(), open_, found);
    return;
  }
  open_.push_front(shard);
  if (open_.size() <= kOpenShardsMax) return;
  shards_[open_.back()].close();
  open_.pop_back();
}

Status ShardPool::read(uint64_t first, std::span<uint32_t> ids, std::span<uint8_t> learnt) {
  CAIRN_CHECK(first <= tokens_ && ids.size() <= tokens_ - first);
  CAIRN_CHECK(learnt.empty() || learnt.size() == ids.size());
  while (!ids.empty()) {
    size_t at = shard_at(first);
    ShardReader& shard = shards_[at];
    uint64_t offset = first - starts_[at];
    size_t count = std::min<uint64_t>(ids.size(), shard.tokens() - offset);
    touch(at);
    CAIRN_CHECK_OK(shard.read(offset, ids.first(count)));
    if (!learnt.empty()) {
      CAIRN_CHECK_OK(shard.read_loss(offset, learnt.first(count)));
      learnt = learnt.subspan(count);
    }
    first += count;
    ids = ids.subspan(count);
  }
  return ok();
}

}  // namespace cairn::dataset
