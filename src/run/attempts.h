// Attempts: one is one start of an executor for a run. A fence belongs to an attempt (RULES F3): starting one ends what the
// run's attempts before it held, takes the leases anew, and only then reads the heads that will be staged. Starting the same
// one again answers what it was granted.
//
// Every call presents the attempt's secret. Thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "run/runs.h"
#include "volume/reads.h"
#include "volume/uploads.h"

namespace cairn::run {

struct GrantedMount {
  catalog::RunMountRow mount;
  int64_t size_bytes = 0;
  // The snapshot to stage, pinned.
  PinId pin;
  volume::SnapshotInfo base;
  std::optional<volume::OpenUpload> upload;  // of a writable mount
};

struct StartedAttempt {
  RunView view;
  catalog::AttemptRow attempt;
  std::vector<std::string> command;  // resolved argv
  std::vector<GrantedMount> mounts;  // in the run's order, the workspace included
};

struct AttemptSign {
  RunState state = RunState::kCreating;  // CREATING, RUNNING or SYNCING
  catalog::RunProgress progress;
  bool after_reboot = false;  // its leases end here, so that what it publishes goes aside (RULES S18)
  int64_t log_sequence = 0;  // of the first of `lines`, counted from 1 within the attempt
  std::vector<catalog::LogRow> lines;
};
struct AttemptAnswer {
  bool stop = false;
  int64_t grace_seconds = 60;
  int64_t log_sequence = 0;
};

struct AttemptEnd {
  RunState outcome = RunState::kFailed;  // COMPLETED, FAILED or STOPPED
  std::optional<int64_t> exit_code;
  std::string reason;
  std::vector<std::string> lost_paths;
  int64_t lost_bytes = 0;
  std::optional<int64_t> saved_step;
  std::optional<int64_t> saved_snapshot;  // unknown: what the attempt's upload published last
};

class Attempts {
 public:
  explicit Attempts(RunContext& context) : context_(context), clock_(context.storage.clock) {}

  // Also again with the same secret, when the answer was lost or the executor died before it wrote it down: the answer is the
  // same, and nothing ends, since a start may also come late, when the executor works with an earlier answer (RULES F3).
  // run_state_conflict when the run is over or was stopped, or a newer attempt exists; lease_lost when somebody has taken one
  // of the volumes since.
  Result<StartedAttempt> start(AttemptId id, std::string_view secret);
  // Renews the leases, moves the run's state, stores log lines. An attempt that was LOST or superseded is told to stop.
  Result<AttemptAnswer> heartbeat(AttemptId id, std::string_view secret, const AttemptSign& sign);
  // Ends the attempt, its uploads and leases; again with the same result is fine. A run that is LOST stays so, with a
  // reason that says what came back.
  Result<RunView> finish(AttemptId id, std::string_view secret, const AttemptEnd& end);
  // Background: attempts without a sign for RunSettings::attempt_silent; their runs become LOST. Their leases stay current
  // until somebody takes them, so that what comes back is published. Offers that nobody started go back to the queue.
  Result<int64_t> expire();

 private:
  RunContext& context_;
  catalog::CatalogClock clock_;
};

}  // namespace cairn::run
