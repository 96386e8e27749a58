// The sandbox a run lives in: bubblewrap with its own mount and PID namespaces and no capability, in a root of which only what
// is listed here is visible: the node's system read-only, the volumes, /workspace, a home, /tmp, and the granted GPUs. Nothing
// of the agent (its folder, its token, its socket) is mounted. Everything the run started dies with process 1.
//
// Start a Sandbox from the executor's main thread only: bubblewrap's --die-with-parent follows the thread that forked.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "os/fd.h"
#include "os/process.h"

namespace cairn::agent {

struct SandboxBind {
  std::string from;
  std::string to;
  bool read_only = false;
};

struct SandboxSpec {
  std::string root;                // host folder that is "/": what is written astray lands there and is measured
  std::vector<SandboxBind> binds;  // in this order
  std::vector<std::string> command;
  std::string working_directory;
  std::vector<std::string> hidden;  // host folders and files that must not show, should the system's folders contain them
  std::map<std::string, std::string> environment;  // all there is
  std::vector<int64_t> gpus;                        // device numbers
};

// The argument list for bubblewrap, without the status descriptor. Pure except for looking at what of the system exists.
std::vector<std::string> sandbox_arguments(const SandboxSpec& spec);

// ok, or sandbox_unavailable with what the machine lacks.
Status check_sandbox();

// The kernel's start time of a process in ticks since boot; nothing when it is gone.
std::optional<int64_t> process_start_time(int64_t pid);

class Sandbox {
 public:
  // Starts it; `out` and `err` become the command's stdout and stderr.
  static Result<Sandbox> start(const SandboxSpec& spec, int out, int err);

  pid_t pid() const { return process_.pid(); }
  pid_t init_pid() const { return init_pid_; }
  int pidfd() const { return process_.pidfd(); }
  Result<std::optional<os::ExitStatus>> try_wait() { return process_.try_wait(); }

  // bubblewrap ends with the command it started, and everything else with bubblewrap. Between these two it waits instead, so that
  // what the command started may end by itself; it tells the command's exit code when it goes on.
  void hold() const;
  void let_go() const;
  // Whether every process but bubblewrap itself is gone.
  bool all_ended() const { return !process_start_time(init_pid_); }
  // SIGKILL to process 1, which ends all.
  void kill_all() const;

 private:
  os::Process process_;
  os::Fd status_;
  pid_t init_pid_ = -1;
};

// Ends a process of an earlier executor, if that number still is that process, and waits until it is gone.
Status end_leftover(int64_t pid, int64_t started, const Deadline& deadline);
// Ends every bubblewrap that binds something below `folder`, whatever its number: an executor that was killed while one was
// starting leaves a half-made sandbox which waits for ever and is in no journal.
Status end_leftover_sandboxes(const std::string& folder, const Deadline& deadline);

}  // namespace cairn::agent
