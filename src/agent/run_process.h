// The life of a run's processes: the sandbox, the two pipes that capture its output, the watch over the space it takes, and its
// end: by itself, or asked for (SIGTERM as stop_signals.h says, the grace time, SIGKILL).
//
// run_process blocks the executor's main thread until every process is gone and all output is in the spool.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/attempt_mounts.h"
#include "agent/heartbeat.h"
#include "agent/log_spool.h"
#include "agent/sandbox.h"
#include "base/deadline.h"
#include "base/result.h"

namespace cairn::agent {

struct ProcessPlan {
  SandboxSpec sandbox;
  std::string disk_path;         // the node's disk is watched here
  uint64_t reserve_bytes = 0;
  Duration usage_interval{0};
  std::function<Status(const Sandbox&)> started;  // once its process numbers are known
};

struct ProcessEnd {
  int exit_code = 0;  // as a shell says it
  bool asked_to_end = false;
  std::string no_space;  // why it was ended for want of space; empty: it was not
};

// `end` is cancelled by whoever wants the run to end, by the watch too.
Result<ProcessEnd> run_process(const ProcessPlan& plan, const std::vector<AttemptMount>& mounts, LogSpool& spool,
                               Heartbeat& heartbeat, CancelToken end);

}  // namespace cairn::agent
