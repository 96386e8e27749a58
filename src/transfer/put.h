// Upload of a file, a folder or stdin into a volume (PRODUCT §2): `put` adds and replaces, `mirror` also deletes what the
// source does not have (never below runs/). Nothing is sent when a conflict is found; nothing is published when nothing
// changed. Interrupted at any moment it leaves the volume as it was, and the same call continues with what had arrived.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "transfer/progress.h"
#include "transfer/remote.h"
#include "transfer/scan.h"

namespace cairn::transfer {

struct PutOptions {
  std::string local;   // a path, or "-" for `stdin_fd`
  std::string remote;  // empty or "/": the root; a trailing '/' means "into this folder"
  ScanOptions scan;
  bool mirror = false;    // --delete
  bool dry_run = false;   // takes no lease, sends nothing; the summary says what would be done
  bool checksum = false;  // reads every file, whatever the stat cache says
  uint64_t bytes_per_second = 0;  // 0: no limit
  unsigned jobs = 8;              // files read at once
  unsigned connections = 4;       // packs sent at once
  uint64_t pack_buffer_bytes = 288 << 20;
  uint64_t fingerprint_bytes = 64 << 20;
  std::string message;
  std::string state_dir;  // of the journal; empty: default_state_dir()
  std::string cache_dir;  // of the stat cache; empty: default_cache_dir()
  std::string source;     // what names this upload for takeover; empty: made of local path and remote path
  Duration lease_wait{0};  // how long to wait for somebody else's lease; an abandoned upload of one's own is waited for anyway
  int stdin_fd = 0;
};

struct PutSummary {
  uint64_t files = 0;          // looked at
  uint64_t links = 0;          // symlinks, which are kept as such
  uint64_t bytes = 0;          // of the files
  uint64_t bytes_sent = 0;     // bytes that went over the wire
  uint64_t chunks_new = 0;
  uint64_t chunks_reused = 0;
  uint64_t skipped = 0;        // left out with a notice: special files, links that leave the tree, unreadable, changing
  uint64_t files_changed = 0;  // entries that were added or replaced
  uint64_t files_deleted = 0;
  // Files that could not be read whole (changing, unreadable) and folders that could not be listed, as paths on the volume: at
  // most 100 names, none only when `failed`, which counts all, is 0. Not 0: exit code 1.
  uint64_t failed = 0;
  std::vector<std::string> failed_paths;
  bool published = false;      // false: nothing changed (or dry run)
  uint64_t snapshot = 0;       // the volume's head that holds all this; 0 only for an empty volume
  Duration duration{0};
};

// What `put` would refuse for its two ends alone, before it asks the server: a source that is not there or cannot be read, a path
// no volume takes. Ok is no promise: the source may change.
Status check_put(const PutOptions& options);

Result<PutSummary> put(Remote& remote, const PutOptions& options, Progress& progress, const Deadline& deadline);

// Where the files of a put or get go. Volume paths have no leading or trailing '/'.
struct RemoteTarget {
  std::string path;           // of the uploaded file or folder itself; "" is the root
  bool explicit_root = true;  // the folder itself becomes an entry (false only for "")
};

// The rsync rule of PRODUCT §2. `local_name` is the last segment of the local path, `contents_only` says that the local path
// ended in '/' (or is '.'), `is_directory` what it is. path_invalid for a path no volume can hold, runs_read_only for one
// that is `runs` or lies below it, however it is spelled.
Result<RemoteTarget> resolve_put_target(const std::string& remote, const std::string& local_name, bool contents_only,
                                        bool is_directory);

}  // namespace cairn::transfer
