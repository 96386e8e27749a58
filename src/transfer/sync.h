// Brings what a run or session changed on its volume back as one publication (RULES F4): the overlay's upper says where to
// look, the merged mount says what is there, the run's manifest says what was. Whiteouts, opaque marks and redirects are never
// interpreted. In a plain copy everything is compared by inode, size, mtime and ctime.
//
// One sync of one manifest at a time (the caller's attempt lock). Everything below the folders may be hostile.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "transfer/progress.h"
#include "transfer/remote.h"

namespace cairn::transfer {

struct SyncOptions {
  std::string mounted_dir;    // the merged mount, or the plain copy
  std::string upper_dir;      // empty: plain copy
  std::string manifest_file;  // what the volume holds as far as this run knows; replaced after a publication
  std::string scratch_dir;    // for spool files; must outlive nothing; empty: $TMPDIR or /tmp
  std::string kind = "final";
  std::string reason;
  std::string message;
  unsigned jobs = 4;
  unsigned connections = 4;
  uint64_t pack_buffer_bytes = 192 << 20;
  uint64_t fingerprint_bytes = 64 << 20;
  bool dry_run = false;  // counts what would be published, reads no contents (a cheap "pending" figure)
};

struct SyncSummary {
  bool published = false;  // false: nothing changed
  uint64_t snapshot = 0;   // 0 when nothing was published
  std::string side;        // name of the side snapshot when the changes could not go to the head
  std::string side_reason;  // "lease_lost" or "contents_exceed_size"
  uint64_t files_changed = 0;
  uint64_t bytes_changed = 0;
  uint64_t files_deleted = 0;
  uint64_t bytes_sent = 0;
  uint64_t chunks_new = 0;
  uint64_t chunks_reused = 0;
  uint64_t skipped = 0;  // devices, sockets, pipes, names no volume can hold
  uint64_t failed = 0;   // files that kept changing or could not be read; not 0: the caller keeps the upper
  std::vector<std::string> failed_paths;  // at most 100
  uint64_t volume_files = 0;  // of the volume after the publication
  uint64_t volume_bytes = 0;
  Duration duration{0};
};

// The grant is the attempt's (see RULES F3); it is neither opened nor closed here, and its heartbeat is the caller's.
Result<SyncSummary> sync(Remote& remote, const UploadGrant& grant, const SyncOptions& options, Progress& progress,
                         const Deadline& deadline);

}  // namespace cairn::transfer
