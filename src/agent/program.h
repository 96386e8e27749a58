// The agent and the executor as programs: from their settings to a running whole. What `main` calls.
#pragma once

#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "config/server_settings.h"

namespace cairn::net {
class Transport;
}

namespace cairn::agent {

// Runs the node's agent until `stop`, then drains its runs. `executor_command` is what starts an executor; "--journal DIR" is
// added to it. Gives the exit code.
Result<int> run_agent_program(const config::AgentSettings& settings, net::Transport& transport,
                              std::vector<std::string> executor_command, CancelToken stop);

// Executes the attempt of `journal` to its end, whatever phase it is in. Main thread, before any other thread exists.
Result<int> run_executor_program(const config::AgentSettings& settings, const std::string& config_file,
                                 net::Transport& transport, const std::string& journal, CancelToken stop);

}  // namespace cairn::agent
