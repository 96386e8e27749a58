// Download of a file or folder of one snapshot. Every chunk is verified by its hash; files appear under their final names
// only when they are whole; nothing is ever written through a symlink out of the destination. What is there already and equal
// is not fetched, neither whole files nor the finished chunks of an interrupted download.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "base/deadline.h"
#include "base/result.h"
#include "transfer/progress.h"
#include "transfer/remote.h"
#include "transfer/scan.h"

namespace cairn::transfer {

struct GetOptions {
  std::string remote;  // a trailing '/' copies what is inside the folder
  std::string local;   // empty: the current folder; a trailing '/' (or ".") means "into this folder"
  std::optional<uint64_t> snapshot;  // nothing: the head
  std::vector<std::string> include;
  std::vector<std::string> exclude;
  bool dry_run = false;
  bool checksum = false;          // hashes files that are there, whatever the stat cache says
  uint64_t bytes_per_second = 0;  // 0: no limit
  unsigned jobs = 8;              // ranges fetched at once
  std::string cache_dir;          // of the stat cache; empty: default_cache_dir()
};

struct GetSummary {
  uint64_t files = 0;  // of the source
  uint64_t links = 0;  // symlinks of the source
  uint64_t bytes = 0;
  uint64_t bytes_received = 0;
  uint64_t chunks_fetched = 0;
  uint64_t chunks_reused = 0;  // found on disk
  uint64_t files_written = 0;
  uint64_t skipped = 0;
  uint64_t snapshot = 0;
  Duration duration{0};
};

Result<GetSummary> get(Remote& remote, const GetOptions& options, Progress& progress, const Deadline& deadline);

// Writes the bytes of one file, in order, each chunk verified before it is handed out.
using ByteSink = std::function<Status(std::span<const uint8_t>)>;
struct CatOptions {
  std::string path;
  std::optional<uint64_t> snapshot;
  uint64_t offset = 0;
  std::optional<uint64_t> length;  // nothing: to the end
};
Result<uint64_t> cat(Remote& remote, const CatOptions& options, const ByteSink& sink, Progress& progress,
                     const Deadline& deadline);

}  // namespace cairn::transfer
