#include "run/states.h"

#include <array>
#include <cstddef>

namespace cairn::run {
namespace {

using R = RunState;
using A = AttemptState;
using N = NodeState;

template <class State>
struct Transition {
  State from;
  State to;
};

// A run that reached a node may go back to CREATING: a scheduler that lost the node starts it again, as a new attempt.
// RUNNING may end without a recorded SYNCING: the heartbeat that announced it need not have arrived.
constexpr Transition<R> kRunTransitions[] = {
    {R::kQueued, R::kPending},     {R::kQueued, R::kStopped},    {R::kQueued, R::kFailed},
    {R::kPending, R::kQueued},     {R::kPending, R::kCreating},  {R::kPending, R::kStopped},
    {R::kPending, R::kFailed},     {R::kPending, R::kLost},      {R::kCreating, R::kCreating},
    {R::kCreating, R::kRunning},   {R::kCreating, R::kSyncing},  {R::kCreating, R::kCompleted},
    {R::kCreating, R::kFailed},    {R::kCreating, R::kStopped},  {R::kCreating, R::kLost},
    {R::kRunning, R::kCreating},   {R::kRunning, R::kSyncing},   {R::kRunning, R::kCompleted},
    {R::kRunning, R::kFailed},     {R::kRunning, R::kStopped},   {R::kRunning, R::kLost},
    {R::kSyncing, R::kCreating},   {R::kSyncing, R::kCompleted}, {R::kSyncing, R::kFailed},
    {R::kSyncing, R::kStopped},    {R::kSyncing, R::kLost},
};

constexpr Transition<A> kAttemptTransitions[] = {
    {A::kOffered, A::kCreating}, {A::kOffered, A::kEnded},    {A::kOffered, A::kSuperseded}, {A::kOffered, A::kLost},
    {A::kCreating, A::kCreating},
    {A::kCreating, A::kRunning}, {A::kCreating, A::kSyncing}, {A::kCreating, A::kEnded},   {A::kCreating, A::kSuperseded},
    {A::kCreating, A::kLost},    {A::kRunning, A::kSyncing},  {A::kRunning, A::kEnded},    {A::kRunning, A::kSuperseded},
    {A::kRunning, A::kLost},     {A::kSyncing, A::kEnded},    {A::kSyncing, A::kSuperseded}, {A::kSyncing, A::kLost},
    {A::kLost, A::kEnded},       {A::kLost, A::kSuperseded},  {A::kSuperseded, A::kEnded},
};

constexpr Transition<N> kNodeTransitions[] = {
    {N::kReady, N::kLost}, {N::kLost, N::kReady}, {N::kReady, N::kRemoved}, {N::kLost, N::kRemoved},
};

constexpr std::array<std::string_view, kRunStates> kRunNames = {"QUEUED",    "PENDING", "CREATING", "RUNNING", "SYNCING",
                                                                "COMPLETED", "FAILED",  "STOPPED",  "LOST"};
constexpr std::array<std::string_view, kAttemptStates> kAttemptNames = {
    "OFFERED", "CREATING", "RUNNING", "SYNCING", "ENDED", "SUPERSEDED", "LOST"};
constexpr std::array<std::string_view, kNodeStates> kNodeNames = {"READY", "LOST", "REMOVED"};

template <class State, size_t n>
bool contains(const Transition<State> (&table)[n], State from, State to) {
  for (const Transition<State>& entry : table) {
    if (entry.from == from && entry.to == to) return true;
  }
  return false;
}

template <class State, size_t n>
std::optional<State> find_name(const std::array<std::string_view, n>& names, std::string_view text) {
  for (size_t i = 0; i < n; ++i) {
    if (names[i] == text) return static_cast<State>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view name(RunState state) { return kRunNames[static_cast<size_t>(state)]; }
std::string_view name(AttemptState state) { return kAttemptNames[static_cast<size_t>(state)]; }
std::string_view name(NodeState state) { return kNodeNames[static_cast<size_t>(state)]; }

std::optional<RunState> run_state(std::string_view text) { return find_name<RunState>(kRunNames, text); }
std::optional<AttemptState> attempt_state(std::string_view text) { return find_name<AttemptState>(kAttemptNames, text); }
std::optional<NodeState> node_state(std::string_view text) { return find_name<NodeState>(kNodeNames, text); }

bool allowed(RunState from, RunState to) { return contains(kRunTransitions, from, to); }
bool allowed(AttemptState from, AttemptState to) { return contains(kAttemptTransitions, from, to); }
bool allowed(NodeState from, NodeState to) { return contains(kNodeTransitions, from, to); }

bool is_final(RunState state) {
  switch (state) {
    case R::kCompleted:
    case R::kFailed:
    case R::kStopped:
    case R::kLost:
      return true;
    case R::kQueued:
    case R::kPending:
    case R::kCreating:
    case R::kRunning:
    case R::kSyncing:
      return false;
  }
  return false;
}

bool is_on_node(RunState state) {
  switch (state) {
    case R::kCreating:
    case R::kRunning:
    case R::kSyncing:
      return true;
    case R::kQueued:
    case R::kPending:
    case R::kCompleted:
    case R::kFailed:
    case R::kStopped:
    case R::kLost:
      return false;
  }
  return false;
}

}  // namespace cairn::run
