// The state machines of work: runs, attempts and nodes. Each is one explicit table of allowed transitions (states.cc); nothing
// changes a state except through it, and every change is a conditional UPDATE on the state it starts from, so that two servers
// cannot both make it.
//
// Pure functions; thread-safe.
#pragma once

#include <optional>
#include <string_view>

namespace cairn::run {

enum class RunState {
  kQueued,     // waits for a lease or a node
  kPending,    // node chosen, leases taken
  kCreating,   // an attempt stages
  kRunning,    // the process lives
  kSyncing,    // the process is gone, changes are being published
  kCompleted,
  kFailed,
  kStopped,
  kLost,       // its node is gone; what it brings when it comes back is published or kept aside
};

enum class AttemptState {
  kOffered,     // opened for a node whose agent has not started it yet
  kCreating,
  kRunning,
  kSyncing,
  kEnded,
  kSuperseded,  // a newer attempt of the run was opened
  kLost,        // no heartbeat for the grace time
};

enum class NodeState { kReady, kLost, kRemoved };

inline constexpr int kRunStates = 9;
inline constexpr int kAttemptStates = 7;
inline constexpr int kNodeStates = 3;

// "QUEUED", …: the words of JSON, catalog and logs.
std::string_view name(RunState state);
std::string_view name(AttemptState state);
std::string_view name(NodeState state);
std::optional<RunState> run_state(std::string_view name);
std::optional<AttemptState> attempt_state(std::string_view name);
std::optional<NodeState> node_state(std::string_view name);

bool allowed(RunState from, RunState to);
bool allowed(AttemptState from, AttemptState to);
bool allowed(NodeState from, NodeState to);

// Nothing follows it.
bool is_final(RunState state);
// The run has, or may have, processes or unsynced changes on a node.
bool is_on_node(RunState state);

}  // namespace cairn::run
