#include "transfer/sync.h"

#include <cstdlib>

#include "os/tree.h"
#include "transfer/entry_spool.h"
#include "transfer/manifest.h"
#include "transfer/sync_plan.h"
#include "transfer/upload.h"

namespace cairn::transfer {
namespace {

constexpr size_t kFailedPathsMax = 100;

std::string scratch_dir_of(const SyncOptions& options) {
  if (!options.scratch_dir.empty()) return options.scratch_dir;
  const char* dir = std::getenv("TMPDIR");
  return dir != nullptr && dir[0] == '/' ? dir : "/tmp";
}

// What moved from one path to another need not be sent: every chunk that the run's manifest names is remembered.
Status remember_manifest(const std::string& file, ChunkTable& table, const Deadline& deadline) {
  CAIRN_TRY(std::unique_ptr<SpoolReader> manifest, SpoolReader::open(file));
  SpoolEntry entry;
  while (!table.full()) {
    CAIRN_CHECK_OK(deadline.check());
    CAIRN_TRY(bool more, manifest->next(entry));
    if (!more) break;
    while (true) {
      CAIRN_TRY(std::span<const store::ChunkRef> chunks, manifest->next_chunks());
      if (chunks.empty()) break;
      for (const store::ChunkRef& chunk : chunks) table.add(chunk);
    }
  }
  return ok();
}

}  // namespace

Result<SyncSummary> sync(Remote& remote, const UploadGrant& grant, const SyncOptions& options, Progress& progress,
                         const Deadline& deadline) {
  Duration started = system_clock().monotonic();
  SyncSummary summary;
  std::string scratch = scratch_dir_of(options);
  progress.set_phase(Phase::kScanning);
  CAIRN_TRY(os::Directory mounted, os::Directory::open(options.mounted_dir));
  os::Directory upper;
  if (!options.upper_dir.empty()) {
    CAIRN_TRY(upper, os::Directory::open(options.upper_dir));
  }
  CAIRN_TRY(os::Fd plan, make_scratch_file(scratch));
  SpoolWriter writer(plan.get());
  ChunkTable table(options.fingerprint_bytes);
  CAIRN_TRY(std::unique_ptr<SpoolReader> manifest, SpoolReader::open(options.manifest_file));
  SyncPlanInput planning;
  planning.mounted = &mounted;
  planning.upper = upper.valid() ? &upper : nullptr;
  planning.manifest = manifest.get();
  planning.table = &table;
  CAIRN_TRY(SyncPlanCounts counts, make_sync_plan(planning, writer, progress, deadline));
  CAIRN_CHECK_OK(writer.finish());
  summary.files_changed = counts.changed;
  summary.bytes_changed = counts.bytes_changed;
  summary.files_deleted = counts.deleted;
  summary.skipped = counts.skipped;
  summary.failed = counts.failed;
  summary.failed_paths = std::move(counts.failed_paths);
  summary.duration = system_clock().monotonic() - started;
  if (options.dry_run || counts.entries == 0) return summary;

  if (counts.bytes_changed != 0) {
    CAIRN_CHECK_OK(remember_manifest(options.manifest_file, table, deadline));
    CAIRN_CHECK_OK(remember_packs(remote, grant, table, options.jobs, deadline));
  }
  UploadInput input;
  input.tree = &mounted;
  input.tree_path = options.mounted_dir;
  input.plan_fd = plan.get();
  input.scratch_dir = scratch;
  input.jobs = options.jobs;
  input.connections = options.connections;
  input.pack_buffer_bytes = options.pack_buffer_bytes;
  input.publish.kind = options.kind;
  input.publish.reason = options.reason;
  input.publish.message = options.message;
  CAIRN_TRY(UploadOutcome outcome, upload(remote, grant, input, table, progress, deadline));
  summary.files_changed = outcome.entries_changed;
  summary.bytes_changed = outcome.bytes_changed;
  summary.files_deleted = outcome.entries_deleted;
  summary.failed += outcome.failed;
  for (std::string& path : outcome.failed_paths) {
    if (summary.failed_paths.size() < kFailedPathsMax) summary.failed_paths.push_back(std::move(path));
  }
  summary.bytes_sent = progress.bytes_moved.load();
  summary.chunks_new = progress.chunks_new.load();
  summary.chunks_reused = progress.chunks_reused.load();
  if (outcome.published) {
    summary.published = true;
    summary.snapshot = outcome.published->snapshot;
    summary.side = outcome.published->side;
    summary.side_reason = outcome.published->side_reason;
    summary.volume_files = outcome.published->files;
    summary.volume_bytes = outcome.published->bytes;
    CAIRN_CHECK_OK(advance_manifest(options.manifest_file, outcome.results.get(), deadline));
  }
  summary.duration = system_clock().monotonic() - started;
  progress.set_phase(Phase::kDone);
  return summary;
}

}  // namespace cairn::transfer
