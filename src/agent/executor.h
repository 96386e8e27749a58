// The executor of one attempt (`cairn agent exec`): it starts the attempt, stages its volumes, mounts them in a mount namespace
// of its own, runs the command in the sandbox, captures its output, and brings everything home however it ends: success,
// failure, stop, no space, a kill of the run, of this process or of the machine. `execute` goes on from whatever phase the
// journal is in, so starting it again is the recovery.
//
// Order (RULES F3): start (fence, read head) → journal → stage → mount → run → all processes gone → sync and publish → release →
// finish. Nothing unsynced is ever removed: when publishing fails the upper stays and the next start tries again.
//
// One executor a process. `execute` must be called on the process's main thread before other threads exist (it enters a mount
// namespace and starts the sandbox); heartbeats and capture run on threads of their own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/journal.h"
#include "agent/server_link.h"
#include "agent/volume_io.h"
#include "base/clock.h"
#include "base/deadline.h"
#include "base/result.h"

namespace cairn::agent {

struct ExecutorSettings {
  std::string outputs_dir;               // <state>/outputs: CAIRN_OUTPUT_DIR of runs without a volume
  std::string locks_dir;                 // <state>/locks: which GPUs are taken
  std::vector<std::string> hidden;       // folders no run may see (state, configuration), should they lie in /usr or /opt
  std::string trainer_program;           // cairn-trainer on this node; empty: not installed
  uint64_t reserve_bytes = uint64_t{1} << 30;  // a run is ended before the node's disk has less than this
  Duration usage_interval = seconds(1);
  Duration retry_pause_max = seconds(30);      // between tries of start, sync and finish
  int sync_tries_max = 20;                     // of failures that waiting does not cure
  bool private_mounts = true;            // false: the caller has entered a mount namespace already
};

struct ExecutorReport {
  api::RunState outcome = api::RunState::kFailed;
  std::optional<int64_t> exit_code;
  std::string reason;
  uint64_t snapshot = 0;
  bool kept_aside = false;
};

class Executor {
 public:
  Executor(ServerLink& server, VolumeIo& volumes, Clock& clock, ExecutorSettings settings);
  ~Executor();

  // Ok when the attempt was reported and nothing is left to sync; an error when the journal must be taken up again later.
  // `cancel` (a signal to this process) drains the run as `stop` does.
  Result<ExecutorReport> execute(const std::string& journal_dir, CancelToken cancel);

  // Tests only: called before each named step; used to kill the process there.
  void set_step_hook(std::function<void(std::string_view step)> hook);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn::agent
