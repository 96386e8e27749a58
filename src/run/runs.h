// Runs as their users see them: creating, listing, stopping, logs, checkpoints. What a run may do next is states.h; which node
// takes it is scheduler.h; what its executor says is attempts.h.
//
// Thread-safe; any number of servers at once (every change is one transaction with conditional statements).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "catalog/attempts.h"
#include "catalog/catalog_clock.h"
#include "catalog/nodes.h"
#include "catalog/run_logs.h"
#include "catalog/runs.h"
#include "run/engines.h"
#include "run/states.h"
#include "volume/context.h"
#include "volume/volumes.h"

namespace cairn::volume {
class Reads;
class Uploads;
class Leases;
}  // namespace cairn::volume

namespace cairn::run {

struct RunSettings {
  Engines engines;
  Duration node_silent = seconds(90);      // a node without a poll this long is LOST
  Duration attempt_silent = minutes(5);    // an attempt without a heartbeat this long makes its run LOST
  Duration offer_time = minutes(2);        // an assignment nobody starts this long goes back to the queue
  int64_t log_lines_kept = 200'000;        // a run, in the catalog
  Duration logs_kept = hours(7 * 24);      // after the end
  int64_t mounts_max = 16;
};

// What the classes of this module are built from; outlives them.
struct RunContext {
  volume::Context& storage;
  volume::Volumes& volumes;
  volume::Leases& leases;
  volume::Uploads& uploads;
  volume::Reads& reads;
  RunSettings settings;
};

struct NewMount {
  std::string volume;
  std::string directory;  // empty: /mnt/<volume>
  bool primary = false;   // at /volume too; outputs go there
  bool read_only = false;
  bool shared = false;
  bool create = false;
  std::optional<int64_t> size_bytes;
  std::optional<int64_t> snapshot;
};

struct NewRun {
  std::string kind = "command";  // or "train"
  std::vector<std::string> command;
  std::map<std::string, std::string> environment;
  std::string engine;  // as the config asks; empty: the default
  std::string config;
  std::string config_name;
  std::vector<NewMount> mounts;
  std::string workspace;  // name of a workspace volume
  std::string gpu;
  std::string node;
  bool queue = false;
  bool sync_final_only = false;
  int64_t grace_seconds = 60;
};

struct RunView {
  catalog::RunRow run;
  std::vector<catalog::RunMountRow> mounts;
  std::string node_name;
  const catalog::RunMountRow* primary() const;
};

struct CheckpointView {
  int64_t step = 0;
  std::string path;
  bool complete = false;
  int64_t files = 0;
  int64_t bytes = 0;
  int64_t snapshot = 0;
  Time at;
};

struct LogView {
  std::vector<catalog::LogRow> lines;
  int64_t next = 0;
  bool ended = false;
};

class Runs {
 public:
  explicit Runs(RunContext& context) : context_(context), clock_(context.storage.clock) {}

  // Checks everything that can be checked before it waits, creates volumes that are to be created, and queues the run.
  // writer_lease_held names the holder of a volume that somebody writes, unless `queue`. With `also` the caller writes in the
  // same transaction.
  Result<RunView> create(const volume::Actor& actor, const NewRun& request, const volume::AlsoInTx<RunView>& also = {});
  // run_not_found also for another owner's. `owner` none: anybody's (operators).
  Result<RunView> get(UserId owner, RunId id);
  Result<std::vector<RunView>> list(UserId owner, std::optional<RunId> before, int64_t limit);
  // A run that did not start is STOPPED at once; one that runs is drained by its executor. Asking again is fine; a run that is
  // over is run_state_conflict.
  Result<RunView> stop(UserId owner, RunId id, std::optional<int64_t> grace_seconds,
                       const volume::AlsoInTx<RunView>& also = {});
  // Lines after `after`, at most `limit` ≤ 10,000.
  Result<LogView> logs(UserId owner, RunId id, int64_t after, const std::string& component, int64_t limit);
  // From the head of the run's primary volume, by step.
  Result<std::vector<CheckpointView>> checkpoints(UserId owner, RunId id);

  // What keeps a volume from being deleted (volume::Volumes::add_usage_probe).
  static Result<std::vector<volume::Use>> uses(catalog::Tx& tx, VolumeId volume);

 private:
  Status check_mount(const volume::Actor& actor, const NewMount& mount, bool queue);

  RunContext& context_;
  catalog::CatalogClock clock_;
};

// "runs/<id>": below it a run's outputs lie on its primary volume.
std::string output_directory(RunId id);

}  // namespace cairn::run
