// The resume journal of uploads: remembers, per source, the upload and its lease secret, so that the same command after a
// crash continues at once instead of waiting for the old lease to lapse, and so that any other command on this machine can
// end the lease of an upload that died here. One small checksummed file and one lock file a source, in one private folder
// (0700; default: default_state_dir()). A damaged journal is treated as absent: it costs a wait, never data.
//
// `Journal` is used by one thread. Two processes with the same source: the second finds `locked_by_other()` true and must not
// use the stored secret (it belongs to a living upload).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "os/lock_file.h"
#include "transfer/remote.h"

namespace cairn::transfer {

struct JournalEntry {
  std::string scope;  // journal_scope() of the volume
  UploadId upload;
  std::string secret;
};

// $XDG_STATE_HOME/cairn or ~/.local/state/cairn; $XDG_CACHE_HOME/cairn or ~/.cache/cairn.
std::string default_state_dir();
std::string default_cache_dir();

class Journal {
 public:
  // Opens the journal of `source` (any string that names volume, server and what is uploaded) in `dir`, which is made if
  // missing, and takes its lock if free.
  static Result<std::unique_ptr<Journal>> open(const std::string& dir, const std::string& source);
  // The journals in `dir` with an entry of that scope whose process is gone, their locks taken.
  static std::vector<std::unique_ptr<Journal>> abandoned(const std::string& dir, const std::string& scope);
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  bool locked_by_other() const { return !lock_.held(); }
  // What the last, unfinished upload left. Nothing when there is none or when it lives in another process.
  std::optional<JournalEntry> load() const;
  // Durable when it returns.
  Status save(const JournalEntry& entry);
  // The upload is finished.
  void clear();

 private:
  Journal(std::string path, os::LockFile lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  std::string path_;
  os::LockFile lock_;
};

// Server, team and volume, and this machine: another one that shares the folder cannot tell whether a process here lives.
std::string journal_scope(const Remote& remote);

// Ends the uploads to the remote's volume that died on this machine, and with them their leases; returns how many. What they
// had sent is used again when they are put again.
uint64_t end_abandoned_uploads(Remote& remote, const std::string& dir, const Deadline& deadline);

}  // namespace cairn::transfer
