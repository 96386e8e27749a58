// The second half of every writing transfer: takes a plan (a spool of puts, reads and deletes in path order), reads and sends
// what must be read, writes the changeset and publishes it. Memory does not grow with the plan: results wait in a bounded window
// and go to a spool in plan order.
//
// A file that changes while it is read is read again, three times in all, then left out and named; so is one that cannot be
// read. When the server says chunks_gone (what was to be reused is being removed), everything is read and sent once more.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "os/fd.h"
#include "os/tree.h"
#include "transfer/chunk_table.h"
#include "transfer/progress.h"
#include "transfer/remote.h"
#include "transfer/stat_cache.h"

namespace cairn::transfer {

struct UploadInput {
  const os::Directory* tree = nullptr;  // what the plan's `local` paths are relative to
  std::string tree_path;                // the same as text, for links that are followed
  bool follow_links = false;
  int stream_fd = -1;  // not -1: the plan's one file is read from here
  int plan_fd = -1;
  std::string scratch_dir;
  unsigned jobs = 8;
  unsigned connections = 4;
  uint64_t pack_buffer_bytes = 288 << 20;
  uint64_t bytes_per_second = 0;
  StatCache* cache = nullptr;
  PublishRequest publish;                  // all but the changeset
  std::function<Status()> still_ours = [] { return ok(); };  // asked now and then: the state of the lease
};

struct UploadOutcome {
  os::Fd results;              // what was published, as a spool: kPut and kDelete only
  uint64_t entries_changed = 0;
  uint64_t bytes_changed = 0;
  uint64_t entries_deleted = 0;
  uint64_t failed = 0;
  std::vector<std::string> failed_paths;  // at most 100
  std::optional<Published> published;     // nothing: all contents turned out to be there already
};

Result<UploadOutcome> upload(Remote& remote, const UploadGrant& grant, const UploadInput& input, ChunkTable& table,
                             Progress& progress, const Deadline& deadline);

// Reads the indexes of packs that earlier, unfinished uploads brought, so that their chunks are not sent again. A pack that
// cannot be read is left out.
Status remember_packs(Remote& remote, const UploadGrant& grant, ChunkTable& table, unsigned connections,
                      const Deadline& deadline);

// Tells the server every `interval` that the writer lives, from a thread of its own, until destroyed.
class Heartbeat {
 public:
  Heartbeat(Remote& remote, UploadGrant grant, Duration interval = seconds(10));
  ~Heartbeat();
  // lease_lost once the server said so; other failures are waited out.
  Status status() const;

 private:
  void beat();
  Remote& remote_;
  const UploadGrant grant_;
  const Duration interval_;
  CancelToken stop_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::optional<Error> lost_;
  std::thread thread_;
};

}  // namespace cairn::transfer
