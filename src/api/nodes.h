// Wire types between a node's agent and the server. The agent registers, polls for assignments, and starts one executor per
// attempt. The executor starts the attempt (which takes its leases and pins, in that order), heartbeats with state and log
// lines, publishes through the uploads it was granted, and finishes it. An attempt's `secret` lies in its journal: with it an
// executor that was restarted on the same node goes on.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/runs.h"
#include "api/uploads.h"
#include "base/clock.h"
#include "base/ids.h"

namespace cairn::api {

struct GpuInfo {
  std::string type;
  uint64_t count = 0;
};

struct RegisterNode {
  std::string name;
  std::string version;
  std::string boot_id;
  uint64_t cpus = 0;
  uint64_t memory_bytes = 0;
  uint64_t disk_total_bytes = 0;
  uint64_t disk_free_bytes = 0;
  std::vector<GpuInfo> gpus;
};

struct RegisteredNode {
  NodeId node;
  uint64_t poll_wait_seconds = 25;
};

struct Node {
  NodeId id;
  std::string name;
  std::string state;  // READY, LOST, REMOVED
  bool draining = false;
  std::string version;
  uint64_t cpus = 0;
  uint64_t memory_bytes = 0;
  uint64_t disk_total_bytes = 0;
  uint64_t disk_free_bytes = 0;
  std::vector<GpuInfo> gpus;
  uint64_t runs = 0;
  Time registered_at;
  Time seen_at;
};

struct NodeList {
  std::vector<Node> nodes;
};

struct PollNode {
  std::vector<AttemptId> attempts;  // in the node's journal, running or still to be synced
  uint64_t disk_free_bytes = 0;
  uint64_t wait_seconds = 25;       // at most 30
};

// A run placed on this node: start an executor for it. Repeated until the attempt starts.
struct Assignment {
  RunId run;
  AttemptId attempt;
  std::string secret;
};

struct StopAttempt {
  AttemptId attempt;
  uint64_t grace_seconds = 60;
};

struct PollAnswer {
  std::vector<Assignment> start;
  std::vector<StopAttempt> stop;
  std::vector<AttemptId> forget;  // ended and nothing left to sync: remove their folders
};

struct StartAttempt {
  std::string secret;
};

struct MountGrant {
  std::string volume;     // name
  VolumeId volume_id;
  std::string directory;  // absolute, inside the sandbox
  bool primary = false;
  bool read_only = false;
  bool shared = false;
  uint64_t size_bytes = 0;
  Pin base;                      // the snapshot to stage
  std::optional<Upload> upload;  // of a writable mount: lease, fence, secret
};

struct AttemptStart {
  RunId run;
  AttemptId attempt;
  uint64_t number = 0;
  RunKind kind = RunKind::kCommand;
  std::vector<std::string> command;  // argv as it is to be executed; kTrain: made from the engine's template
  std::string config;                // text of the training config; empty: none
  std::string config_name;
  std::string output_directory;      // "runs/<run>" on the primary volume
  std::map<std::string, std::string> environment;
  std::string gpu;
  std::vector<MountGrant> mounts;
  std::optional<MountGrant> workspace;  // copied to /workspace and thrown away at the end
  bool sync_final_only = false;
  uint64_t grace_seconds = 60;
  uint64_t heartbeat_seconds = 5;
};

struct LogRecord {
  std::string component;
  Time at;
  std::string text;
};

struct HeartbeatAttempt {
  std::string secret;
  RunState state = RunState::kCreating;  // CREATING, RUNNING or SYNCING
  std::string message;                   // progress for people: "staging 41 %"
  PendingState pending;
  bool safe_to_stop = true;
  bool after_reboot = false;             // the node restarted while the run lived: what is unsynced must go aside
  std::optional<SavedState> saved;
  uint64_t log_sequence = 0;             // number of the first line of `logs`, counted from 1 within the attempt
  std::vector<LogRecord> logs;           // lines already known are dropped by the server, so sending again is harmless
};

struct AttemptHeartbeatAnswer {
  bool stop = false;
  uint64_t grace_seconds = 60;
  uint64_t log_sequence = 0;         // last line stored
};

struct FinishAttempt {
  std::string secret;
  RunState state = RunState::kCompleted;  // COMPLETED, FAILED or STOPPED
  std::optional<int64_t> exit_code;
  std::string reason;
  std::vector<std::string> lost_paths;    // written outside the volumes, for the loss report
  uint64_t lost_bytes = 0;
  std::optional<SavedState> saved;
};

inline constexpr uint64_t kLogRecordsPerHeartbeatMax = 2'000;
inline constexpr uint64_t kAttemptsPerNodeMax = 1'000;

}  // namespace cairn::api
