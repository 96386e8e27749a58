// What an attempt is about to do and has done, on the node's disk, so that whoever comes after a kill or a reboot knows what
// is left to end, to sync and to report. One folder an attempt:
//   lock             held by its executor
//   assignment.json  what the agent was told (with the attempt's secret)
//   start.json       what the server granted (with the leases' secrets)
//   state            phase and results, replaced whole at each step, durable before the step counts
//   error            why its last executor ended early
//   lines            the captured log, line by line (log_spool.h)
//   m<N>/            of mount N: upper, work, merged, manifest
//   root, home, tmp, workspace   what else the sandbox may write
//
// The folder is 0700 and its files 0600. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/types.h"
#include "base/result.h"
#include "os/lock_file.h"

namespace cairn::agent {

enum class Phase {
  kAssigned,  // nothing was asked of the server
  kStarted,   // start.json is there; nothing ran
  kRunning,   // processes may live, uppers may hold changes
  kExited,    // the processes are gone, uppers may hold changes
  kSynced,    // everything was published (or there was nothing to publish)
  kFinished,  // reported; the folder may go
};

struct JournalState {
  Phase phase = Phase::kAssigned;
  std::string boot_id;          // of the boot in which the processes were started
  int64_t sandbox_pid = 0;      // bubblewrap itself
  int64_t init_pid = 0;         // process 1 of the sandbox
  int64_t sandbox_started = 0;  // start times of both in the kernel's ticks: numbers come back, these do not
  int64_t init_started = 0;
  bool has_ended = false;       // how the command ended is known: the next three
  std::optional<int64_t> exit_code;
  api::RunState outcome = api::RunState::kFailed;
  std::string reason;
  std::vector<bool> plain_copy;     // of each mount
  std::vector<bool> synced;         // of each mount
  uint64_t snapshot = 0;            // newest one published on the primary volume
  std::optional<uint64_t> saved_step;  // newest complete checkpoint on it
  bool kept_aside = false;
  bool keep = false;  // something could not be published: nobody may remove this folder
  uint64_t lost_bytes = 0;
  std::vector<std::string> lost_paths;
};

class Journal {
 public:
  // The agent makes it, durable before the executor starts; an existing one of the same attempt is left as it is.
  static Status create(const std::string& dir, const api::Assignment& assignment);
  // The executor opens it. busy when another executor has it.
  static Result<Journal> open(const std::string& dir);
  // Whether an executor lives, without disturbing it.
  static bool in_use(const std::string& dir);
  // SIGTERM to the executor that has it, as far as it can be told.
  static void ask_executor_to_end(const std::string& dir);
  // Why an executor ended early, for the agent that may have to report it. Best effort.
  static void note_error(const std::string& dir, const Error& error);
  static std::string noted_error(const std::string& dir);
  // Phase of a journal that nobody may have open.
  static Result<JournalState> peek(const std::string& dir);

  const std::string& dir() const { return dir_; }
  std::string path(std::string_view name) const { return dir_ + "/" + std::string(name); }
  std::string mount_path(size_t mount, std::string_view name) const;
  const api::Assignment& assignment() const { return assignment_; }
  const std::optional<api::AttemptStart>& start() const { return start_; }
  Status save_start(const api::AttemptStart& start);

  const JournalState& state() const { return state_; }
  // Durable when it returns ok; on failure the state is as before.
  Status save(JournalState state);

 private:
  std::string dir_;
  os::LockFile lock_;
  api::Assignment assignment_;
  std::optional<api::AttemptStart> start_;
  JournalState state_;
};

// The text of the state file, and back: "name value" lines. data_corrupt for anything else.
std::string format_state(const JournalState& state);
Result<JournalState> parse_state(std::string_view text);

}  // namespace cairn::agent
