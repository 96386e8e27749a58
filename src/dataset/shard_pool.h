// All shards of some folders as one long sequence of token ids, in the byte order of their paths. At most kOpenShardsMax of them
// have a descriptor open. Not thread-safe.
#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "dataset/shard_reader.h"

namespace cairn::dataset {

inline constexpr size_t kOpenShardsMax = 64;
inline constexpr size_t kShardsMax = 1'000'000;
inline constexpr size_t kShardFolderDepthMax = 32;

class ShardPool {
 public:
  // Folders, searched to their bottom, and single .ds files. data_missing_on_volume names a path that is absent; data_invalid: no
  // shard at all, a link, or one file found twice. Empty shards count as found.
  static Result<ShardPool> open(const std::vector<std::string>& paths);

  uint64_t tokens() const { return tokens_; }
  const std::vector<ShardReader>& shards() const { return shards_; }
  bool has_loss() const { return has_loss_; }
  // Of the shards' paths below the folders they were found in, their sizes, and their first and last 1,024 ids: 64 hex digits. The
  // same data under another mount point has the same.
  Result<std::string> fingerprint();

  // `learnt` is empty, or gets one entry for each id. REQUIRES: first + ids.size() <= tokens().
  Status read(uint64_t first, std::span<uint32_t> ids, std::span<uint8_t> learnt);
  // The last ids of the first documents of a shard, empty ones left out. REQUIRES: its index has that many.
  Result<std::vector<uint32_t>> last_ids(size_t shard, uint64_t documents);
  struct Place {
    const ShardReader* shard;
    uint64_t offset;  // in the shard
  };
  // REQUIRES: position < tokens().
  Place locate(uint64_t position) const;

 private:
  size_t shard_at(uint64_t position) const;
  // Closes the one used longest ago when too many are open.
  void touch(size_t shard);

  std::vector<ShardReader> shards_;
  std::vector<uint64_t> starts_;  // of each shard in the sequence
  std::list<size_t> open_;        // the latest used first
  uint64_t tokens_ = 0;
  bool has_loss_ = false;
};

}  // namespace cairn::dataset
