// The node agent: registers the node, asks the server for work by long polls, writes a journal for each assignment and starts
// one executor process for it (`cairn agent exec --journal DIR`). Executors are sessions of their own and outlive the agent.
// When it starts it looks through the journals: executors that live are left to work, dead ones are started again to recover.
// An executor that ends with work left (the server was away) is started again with growing pauses. One that never gets as far as
// asking the server for its start (a program or file that is missing) is given up after a few tries: its run fails and says why.
//
// run() blocks until `cancel`; it ends no executor, unless asked to drain. One agent a state folder (a lock file).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/server_link.h"
#include "base/clock.h"
#include "base/deadline.h"
#include "base/result.h"

namespace cairn::agent {

struct AgentSettings {
  std::string name;       // of the node
  std::string state_dir;  // 0700; attempts/, cache/ and outputs/ lie in it
  std::vector<std::string> executor_command;  // e.g. {"/usr/bin/cairn", "agent", "exec", "--config", FILE}
  Duration poll_wait = seconds(25);
  Duration retry_pause_min = seconds(1);
  Duration retry_pause_max = seconds(60);
  Duration outputs_kept = hours(7 * 24);
  // On cancel: SIGTERM to all executors (each drains its run and publishes), and wait for them this long.
  bool drain_on_stop = false;
  Duration drain_timeout = minutes(10);
};

class Agent {
 public:
  Agent(ServerLink& server, Clock& clock, AgentSettings settings);
  ~Agent();

  // `ready` is called once, when the node is registered.
  Status run(CancelToken cancel, const std::function<void(NodeId)>& ready = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

std::string attempts_dir(const std::string& state_dir);
std::string outputs_dir(const std::string& state_dir);
std::string cache_dir(const std::string& state_dir);
std::string locks_dir(const std::string& state_dir);

}  // namespace cairn::agent
