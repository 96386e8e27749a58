// Starts the processes of one training run on this machine, all of the same program, and stays with them until they have ended:
// each is told its number, their count and the meeting file by environment variables; a stop signal is passed on to all; when one
// fails, the others are ended and it is named.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "trainer/process_group.h"
#include "trainer/run_log.h"
#include "trainer/stop_request.h"

namespace cairn::trainer {

// What the parent told this process, or nothing when it was not started by run_processes. data_invalid: nonsense in the environment.
Result<std::optional<Membership>> membership_from_environment();

// `argv` is the command line of each process. Returns the exit code for the parent: 0 when all ended well, else that of the process
// that failed first; one that failed as if its partner had gone (io_error, deadline_exceeded) only where no other gives a reason.
Result<int> run_processes(const std::vector<std::string>& argv, int count, StopRequest& stop, RunLog& log);

}  // namespace cairn::trainer
