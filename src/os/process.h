// Child processes. A child is started from the calling thread (PDEATHSIG and bubblewrap's --die-with-parent follow the thread
// that forked: start sandboxes from one that lives as long as they do), inherits exactly the descriptors it is given, has default
// signal handling, and is known by a pidfd, so that a signal never reaches a stranger that got its number.
//
// A Process that is destroyed while the child lives kills it (its whole group where it has one) and waits, unless detached.
// Not thread-safe, except kill and kill_group.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "os/fd.h"

namespace cairn::os {

inline constexpr int kNullDevice = -1;  // for the three standard descriptors: /dev/null
inline constexpr int kInherit = -2;     // the caller's own

struct SpawnOptions {
  std::vector<std::string> argv;  // argv[0] is a path, or a name looked up in the caller's PATH
  std::optional<std::vector<std::string>> env;  // "NAME=value" each; nothing = the caller's
  std::string cwd;                              // empty = the caller's
  int stdin_fd = kNullDevice;
  int stdout_fd = kInherit;
  int stderr_fd = kInherit;
  std::vector<std::pair<int, int>> extra_fds;  // {the caller's, the child's number >= 3}
  bool new_process_group = false;
  bool new_session = false;  // implies its own group
  int death_signal = 0;      // sent to the child when the starting thread ends; 0 = none
  std::optional<uint32_t> umask;
};

struct ExitStatus {
  int code = 0;    // when it exited
  int signal = 0;  // when a signal ended it, else 0
  bool success() const { return signal == 0 && code == 0; }
  // As a shell says it: 128 + signal, or the code.
  int shell_code() const { return signal ? 128 + signal : code; }
  // "exit code 3", "killed by signal 9 (Killed)".
  std::string to_string() const;
};

class Process {
 public:
  Process() = default;
  ~Process();
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;

  // Fails when the program cannot be executed, naming it and why (file_not_found, file_unreadable, …).
  static Result<Process> spawn(const SpawnOptions& options);

  pid_t pid() const { return pid_; }
  // Readable (poll) when the child has ended.
  int pidfd() const { return pidfd_.get(); }
  bool running() const { return pid_ > 0 && !status_; }

  // Nothing while it lives.
  Result<std::optional<ExitStatus>> try_wait();
  // deadline_exceeded or cancelled when the deadline comes first; the child lives on. Asking again gives the same status.
  Result<ExitStatus> wait(const Deadline& deadline);
  // Ok when it has already ended.
  Status kill(int signal) const;
  // REQUIRES: new_process_group or new_session.
  Status kill_group(int signal) const;
  // SIGTERM (to the group where there is one), `grace`, then SIGKILL.
  Result<ExitStatus> terminate(Duration grace);
  // The child lives on by itself; init or the caller's own waiting reaps it.
  void detach();

 private:
  void end_now();
  pid_t pid_ = -1;
  Fd pidfd_;
  bool own_group_ = false;
  std::optional<ExitStatus> status_;
};

struct CommandOutput {
  ExitStatus status;
  std::string out;
  std::string err;
};
// Runs to the end with both outputs captured; output above `max_bytes` each is dropped. The child (its group) is killed when the
// deadline comes first.
Result<CommandOutput> run_command(SpawnOptions options, const Deadline& deadline, size_t max_bytes = 1 << 20);

// Becomes that program (argv[0] is a path), with the caller's environment and descriptors; returns only when it cannot.
Error replace_process(const std::vector<std::string>& argv);

// Sends a signal to a process that is not a child of this one; 0 asks whether it lives. file_not_found when there is none.
Status signal_process(pid_t pid, int signal);

// The full path of `name` in PATH, or nothing.
std::optional<std::string> find_program(const std::string& name);

}  // namespace cairn::os
