// Brings a snapshot to a node as a read-only *lower* folder. The node cache is the set of staged lowers, one per root digest:
// the same digest is used again as it is (after its stat manifest was checked), a new one links unchanged files from the
// lower that is nearest. A lower counts as staged only when its marker is there, written after all files were verified (count,
// bytes, every chunk's hash) and made durable with one syncfs.
//
// NodeCache is thread-safe; several processes may use one cache folder (lock files). A StagedLower holds its lower in use.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/deadline.h"
#include "base/result.h"
#include "transfer/progress.h"
#include "transfer/remote.h"

namespace cairn::transfer {

struct NodeCacheOptions {
  std::string dir;                       // private to the agent (0700)
  uint64_t bytes_max = uint64_t{200} << 30;  // of unused lowers, as the sum of their file sizes
  unsigned free_percent_max = 80;        // share of the free disk that one staging may take (volume_too_large_for_node)
  unsigned jobs = 4;
};

class LowerUse;  // an open lock

struct StagedLower {
  std::string tree_dir;       // use as overlay lowerdir or read-only bind, never writable
  std::string manifest_file;  // the run's first manifest (manifest.h): copy it, it belongs to the cache
  std::string root;           // hex digest
  uint64_t snapshot = 0;
  uint64_t files = 0;
  uint64_t bytes = 0;
  bool reused = false;            // was there already
  uint64_t files_linked = 0;      // taken from another lower without fetching
  uint64_t bytes_received = 0;
  std::shared_ptr<LowerUse> use;  // eviction spares the lower while any copy of this lives
};

class NodeCache {
 public:
  static Result<std::unique_ptr<NodeCache>> open(NodeCacheOptions options);
  ~NodeCache();
  NodeCache(const NodeCache&) = delete;
  NodeCache& operator=(const NodeCache&) = delete;

  // Stages what `pin` pinned. volume_sync_incomplete when what arrived does not agree with the tree;
  // volume_too_large_for_node, with the numbers, before anything is fetched.
  Result<StagedLower> stage(Remote& remote, const PinGrant& pin, Progress& progress, const Deadline& deadline);

  // A lower that is there already, e.g. after the agent was restarted; path_not_found when it is not.
  Result<StagedLower> reopen(const std::string& root);
  // Between processes: a kept lower is spared by eviction until it is released, whoever lives. `holder` is a file name, e.g.
  // an attempt id. For a lower whose unsynced upper waits on disk.
  Status keep(const std::string& root, const std::string& holder);
  Status release(const std::string& root, const std::string& holder);

  // Removes unused lowers, longest unused first, until their bytes are at most `bytes_max`; and what a crash left unfinished.
  Status evict(uint64_t bytes_max, const Deadline& deadline);

 private:
  explicit NodeCache(NodeCacheOptions options);
  Result<StagedLower> reopen(const std::string& root, const Deadline& deadline);
  NodeCacheOptions options_;
};

// The fallback where no overlay can be mounted: a full, writable copy of the lower in `destination` (an empty or absent
// folder), and at `manifest_file` a manifest that knows the copy's inodes and times.
Status copy_lower(const StagedLower& lower, const std::string& destination, const std::string& manifest_file, unsigned jobs,
                  Progress& progress, const Deadline& deadline);

}  // namespace cairn::transfer
