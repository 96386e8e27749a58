// The tables of runs and their mounts. Functions on one transaction; states are the words of run/states.h, which also says
// which changes are allowed: `move_run` is the one conditional statement that makes them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "catalog/db.h"

namespace cairn::catalog {

struct RunMountRow {
  VolumeId volume;
  std::string volume_name;
  std::string directory;
  bool primary = false;
  bool read_only = false;
  bool shared = false;
  bool workspace = false;
  std::optional<int64_t> snapshot;
};

struct RunRow {
  RunId id;
  std::string kind;  // "command" or "train"
  std::string state;
  std::string owner_id;
  std::string user_name;
  std::vector<std::string> command;
  std::map<std::string, std::string> environment;
  std::string engine;
  std::string config;
  std::string config_name;
  std::string gpu;  // as it was asked for
  int64_t gpu_count = 0;
  std::string gpu_type;
  std::string wanted_node;
  bool queue = false;
  bool sync_final_only = false;
  int64_t grace_seconds = 60;
  std::optional<NodeId> node;
  int64_t attempt = 0;
  bool stop_requested = false;
  int64_t stop_grace_seconds = 0;
  std::optional<int64_t> exit_code;
  std::string reason;
  std::string message;
  std::optional<int64_t> saved_step;
  std::optional<int64_t> saved_snapshot;
  std::optional<Time> saved_at;
  int64_t pending_files = 0;
  int64_t pending_bytes = 0;
  bool safe_to_stop = true;
  int64_t log_seq = 0;
  Time created_at;
  std::optional<Time> started_at;
  std::optional<Time> ended_at;
};

Status insert_run(Tx& tx, const RunRow& run, const std::vector<RunMountRow>& mounts);
Result<std::optional<RunRow>> find_run(Tx& tx, RunId id);
Result<std::vector<RunMountRow>> run_mounts(Tx& tx, RunId id);

struct RunFilter {
  std::string owner_id;  // empty: all
  std::string state;     // empty: all
  std::optional<std::pair<Time, RunId>> before;  // of the last one seen
  int64_t limit = 100;
};
// Newest first.
Result<std::vector<RunRow>> list_runs(Tx& tx, const RunFilter& filter);
// In the order they were created, at most `limit`.
Result<std::vector<RunRow>> runs_in_state(Tx& tx, std::string_view state, int64_t limit);
// Runs in a state that holds a place on the node.
Result<std::vector<RunRow>> runs_on_node(Tx& tx, NodeId node);
// A run other than `except` that is not over and mounts this volume for writing; with `only_placed`, one that has left the
// queue.
Result<std::optional<RunRow>> run_writing(Tx& tx, VolumeId volume, RunId except, bool only_placed);
// Runs that are not over and mount the volume in any way.
Result<std::vector<RunRow>> runs_using(Tx& tx, VolumeId volume);

// True when the run was in `from`. `reason` replaces the old one unless nothing. The start time is kept from the first
// RUNNING, the end time is set with a final state.
struct RunMove {
  std::string_view from;
  std::string_view to;
  std::optional<std::string> reason;
  std::optional<Time> started_at;
  std::optional<Time> ended_at;
  std::optional<int64_t> exit_code;
};
Result<bool> move_run(Tx& tx, RunId id, const RunMove& move);
Result<bool> place_run(Tx& tx, RunId id, std::optional<NodeId> node, int64_t attempt);
Result<bool> request_run_stop(Tx& tx, RunId id, int64_t grace_seconds);
Status set_run_reason(Tx& tx, RunId id, const std::string& reason);

struct RunProgress {
  std::string message;
  int64_t pending_files = 0;
  int64_t pending_bytes = 0;
  bool safe_to_stop = true;
  std::optional<int64_t> saved_step;
  std::optional<int64_t> saved_snapshot;
  std::optional<Time> saved_at;
};
// What is nothing in `saved_*` keeps its old value.
Result<bool> update_run_progress(Tx& tx, RunId id, const RunProgress& progress);

}  // namespace cairn::catalog
