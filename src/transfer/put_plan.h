// Joins what is on disk with what the volume holds: both streams come in path order, so memory does not grow with either. The
// plan that comes out says what to read and send, what to put unread and what to delete; a conflict ends it before anything was
// sent.
#pragma once

#include <optional>
#include <string>

#include "base/deadline.h"
#include "transfer/chunk_table.h"
#include "transfer/entry_spool.h"
#include "transfer/progress.h"
#include "transfer/scan.h"
#include "transfer/stat_cache.h"

namespace cairn::transfer {

struct PutPlanInput {
  Scanner* scanner = nullptr;
  std::string target;         // volume path of the scanner's root; "" is the volume's root
  std::string file_name;      // where the scanner's one file lies when its root is a file
  EntrySource* base = nullptr;  // entries at and below `target`
  StatCache* cache = nullptr;
  ChunkTable* table = nullptr;  // learns the base's chunks
  bool mirror = false;
  bool checksum = false;
};

struct PutPlanCounts {
  uint64_t entries = 0;  // in the plan
  uint64_t files = 0;    // looked at
  uint64_t links = 0;
  uint64_t bytes = 0;
  uint64_t bytes_to_read = 0;
  uint64_t changed = 0;
  uint64_t deleted = 0;
};

// What refuses a path of the source that would land below runs/.
Error below_runs(const std::string& path);

// path_type_conflict, runs_read_only; errors of the two streams.
Result<PutPlanCounts> make_put_plan(const PutPlanInput& input, SpoolWriter& plan, Progress& progress, const Deadline& deadline);

}  // namespace cairn::transfer
