// The stat cache: which contents a local file had when it was last hashed, keyed by (device, inode, size, mtime, ctime). A
// file whose five values are known needs no reading; any difference means hashing (RULES S15). Entries whose mtime or ctime is
// too close to the moment of hashing are not kept: a write in the same clock tick would be invisible.
//
// Stored as one bounded, checksummed file a tree (entries of 48 bytes, at most `max_entries`), replaced atomically; a damaged
// or unknown file is an empty cache. `find` and `insert` are thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "codec/digest.h"

namespace cairn::transfer {

// Names the contents of a file: SHA-256 over its list of chunks (content_id.h).
using ContentId = codec::Digest;

struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t size = 0;
  int64_t mtime_ns = 0;
  int64_t ctime_ns = 0;
  bool operator==(const FileIdentity&) const = default;
};

class StatCache {
 public:
  static constexpr uint64_t kMaxEntries = 1'000'000;

  // The cache of the tree `key` (any string, e.g. the absolute path) in `dir`; an empty `dir` keeps it in memory only.
  StatCache(std::string dir, const std::string& key, uint64_t max_entries = kMaxEntries);
  ~StatCache();
  StatCache(const StatCache&) = delete;
  StatCache& operator=(const StatCache&) = delete;

  // Reads the stored cache; never fails (see above).
  void load();
  // Replaces the stored file by what was found or inserted since `load` (older entries fill what room is left), and removes
  // the longest unused caches when there are more than 64 of them.
  Status save();

  std::optional<ContentId> find(const FileIdentity& identity);
  // `hashed_at`: wall-clock time just before the file was opened for hashing. Does nothing when a timestamp is too close to it.
  void insert(const FileIdentity& identity, const ContentId& content, Time hashed_at);
  // For a file this process wrote itself and whose mtime it set: only the mtime must be old.
  void insert_written(const FileIdentity& identity, const ContentId& content, Time written_at);

  uint64_t size() const;

 private:
  struct Table;
  void insert_entry(const FileIdentity& identity, const ContentId& content);
  std::string dir_;
  std::string path_;
  uint64_t max_entries_;
  mutable std::mutex mutex_;
  std::unique_ptr<Table> table_;
};

// True when a timestamp is so close to `now` that a later write could leave it unchanged: within 50 ms on file systems with
// fine timestamps, within 2 s where they are whole seconds.
bool racy(int64_t timestamp_ns, int64_t other_ns, Time now);

}  // namespace cairn::transfer
