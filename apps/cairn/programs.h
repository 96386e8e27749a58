// The programs behind `cairn server`, `cairn agent` and `cairn agent exec`: they read a configuration file, build the parts and
// run them until `stop` is cancelled. Wiring only.
#pragma once

#include <string>

#include "base/deadline.h"
#include "base/result.h"
#include "cli/wiring.h"

namespace cairn::apps {

Result<int> run_server(const std::string& config_file, CancelToken stop, bool restored);
Result<int> run_agent(const std::string& config_file, CancelToken stop);
Result<int> run_executor(const cli::AgentExecOptions& options, CancelToken stop);

}  // namespace cairn::apps
