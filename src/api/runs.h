// Wire types of runs as users see them: creating, listing, logs, checkpoints, stopping.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"

namespace cairn::api {

enum class RunState {
  kQueued, kPending, kCreating, kRunning, kSyncing, kCompleted, kFailed, kStopped, kLost
};

// "QUEUED"
std::string_view state_name(RunState state);
std::optional<RunState> state_from_name(std::string_view name);
// COMPLETED, FAILED or STOPPED. (A LOST run may still come back with its changes; `wait` counts it as ended too.)
bool is_final(RunState state);

struct MountRequest {
  std::string volume;
  std::string directory;   // inside the sandbox; empty: /mnt/<volume>. The primary volume is at /volume as well.
  uint64_t snapshot = 0;   // of a read-only mount; 0: head
  bool read_only = false;
  bool shared = false;
  bool primary = false;    // outputs go there; at most one
  bool create = false;     // when it does not exist
  std::optional<uint64_t> size_bytes;
};

enum class RunKind { kCommand, kTrain };

struct CreateRun {
  RunKind kind = RunKind::kCommand;
  std::vector<std::string> command;  // kCommand: one argument runs by `sh -c`, several as they are
  std::string config;                // kTrain: text of the TOML file
  std::string config_name;           // kTrain: its file name
  std::vector<MountRequest> mounts;
  std::string workspace;             // name of a workspace volume; empty: an empty /workspace
  std::string gpu;                   // "", "cpu", "N", "TYPE", "TYPE:N"
  std::string node;                  // name of the node it must run on; empty: any
  std::map<std::string, std::string> environment;
  bool queue = false;                // wait for held leases instead of being refused
  bool sync_final_only = false;      // no publication of checkpoints while it runs
  std::optional<uint64_t> grace_seconds;
};

struct SavedState {
  std::optional<uint64_t> step;
  uint64_t snapshot = 0;  // 0 at the end of an attempt: its node does not know
  Time at;
  uint64_t age_seconds = 0;  // "age_s" in JSON; filled by the server when it answers
};

struct PendingState {
  uint64_t files = 0;
  uint64_t bytes = 0;
};

struct Run {
  RunId id;
  RunKind kind = RunKind::kCommand;
  RunState state = RunState::kQueued;
  std::string user;
  std::string volume;  // primary one; empty: none
  std::vector<MountRequest> mounts;
  std::vector<std::string> command;
  std::string config_name;
  std::string node;
  uint64_t attempt = 0;
  std::optional<int64_t> exit_code;
  std::string reason;
  std::string message;  // progress: "staging 41 %"
  std::optional<SavedState> saved;
  PendingState pending;
  bool safe_to_stop = true;
  bool stop_requested = false;
  Time created_at;
  std::optional<Time> started_at;
  std::optional<Time> ended_at;
};

struct RunsQuery {
  RunId before;            // the last one of the page before
  uint64_t limit = 100;    // at most 1,000
};

// Newest first.
struct RunList {
  std::vector<Run> runs;
};

struct StopRun {
  std::optional<uint64_t> grace_seconds;
};

struct LogsQuery {
  uint64_t after = 0;  // sequence of the last line seen
  std::string component;
  uint64_t limit = 1000;
  uint64_t wait_seconds = 0;  // long poll: wait for new lines, at most 30
};

struct LogLine {
  uint64_t sequence = 0;
  std::string component;
  Time at;
  std::string text;
};

struct LogPage {
  std::vector<LogLine> lines;
  uint64_t next = 0;   // `after` of the next page
  bool ended = false;  // the run has ended and no further line will come
};

struct Checkpoint {
  uint64_t step = 0;
  std::string path;
  std::string state;  // COMPLETE, SETTLED, INCOMPLETE
  uint64_t files = 0;
  uint64_t bytes = 0;
  uint64_t snapshot = 0;
  Time at;
};

struct CheckpointList {
  std::vector<Checkpoint> checkpoints;
};

inline constexpr uint64_t kMountsPerRunMax = 16;
inline constexpr uint64_t kLogLinesPerPageMax = 10'000;
inline constexpr uint64_t kConfigBytesMax = 256 * 1024;
inline constexpr uint64_t kArgumentsMax = 4096;
inline constexpr uint64_t kEnvironmentMax = 256;
inline constexpr uint64_t kLogTextBytesMax = 16 * 1024;

}  // namespace cairn::api
