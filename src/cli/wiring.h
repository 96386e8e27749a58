// What `main` plugs into the command line: the transport, and the programs of the same rank (server, agent) that cli may not
// include. Each function runs until it is told to stop and gives the exit code.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/deadline.h"
#include "base/ids.h"
#include "base/result.h"

namespace cairn::net {
class Transport;
}

namespace cairn::cli {

struct AgentExecOptions {
  std::string config_file;  // the agent's
  std::string journal;  // the attempt's folder; an executor goes on from whatever stands in it
};

struct Wiring {
  // `ca_file` may be empty.
  std::function<std::shared_ptr<net::Transport>(const std::string& ca_file)> make_transport;
  // Both read their configuration file and stop gracefully when `stop` is cancelled.
  std::function<Result<int>(const std::string& config_file, CancelToken stop, bool restored)> run_server;
  std::function<Result<int>(const std::string& config_file, CancelToken stop)> run_agent;
  // Runs on the main thread, which becomes the parent of the sandbox.
  std::function<Result<int>(const AgentExecOptions& options, CancelToken stop)> run_executor;
};

}  // namespace cairn::cli
