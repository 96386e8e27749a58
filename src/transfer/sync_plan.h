// Finds what a run changed: walks the mounted tree, only where upper has folders (everywhere in a plain copy), in step with the
// run's manifest, and writes the difference as a plan. Nothing that lies in upper is believed to be unchanged by size and time
// alone: it is read and compared by its chunks, unless this very inode with these times was published before.
//
// One thread. No folder stays open while its subfolders are walked.
#pragma once

#include <string>
#include <vector>

#include "base/deadline.h"
#include "os/tree.h"
#include "transfer/chunk_table.h"
#include "transfer/entry_spool.h"
#include "transfer/progress.h"

namespace cairn::transfer {

struct SyncPlanInput {
  const os::Directory* mounted = nullptr;
  const os::Directory* upper = nullptr;  // nothing: plain copy
  EntrySource* manifest = nullptr;
  ChunkTable* table = nullptr;  // learns the chunks of files that are to be read
};

struct SyncPlanCounts {
  uint64_t entries = 0;
  uint64_t changed = 0;
  uint64_t bytes_changed = 0;  // of files to be read
  uint64_t deleted = 0;
  uint64_t skipped = 0;
  uint64_t failed = 0;
  std::vector<std::string> failed_paths;  // folders that could not be looked at; at most 100
};

Result<SyncPlanCounts> make_sync_plan(const SyncPlanInput& input, SpoolWriter& plan, Progress& progress,
                                      const Deadline& deadline);

}  // namespace cairn::transfer
