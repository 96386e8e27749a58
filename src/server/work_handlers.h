// What the routes of runs, nodes and attempts do: wire types in, wire types out, rules in module run. Each function is one
// route; the caller has authenticated, parsed the body and gives `also`, by which the stored answer of an idempotent request
// joins the transaction.
//
// Thread-safe. Those with a deadline wait (long polls) and belong on the pool for waiting calls.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "api/types.h"
#include "base/deadline.h"
#include "base/result.h"
#include "identity/principal.h"
#include "run/attempts.h"
#include "run/nodes.h"
#include "run/runs.h"
#include "run/scheduler.h"

namespace cairn::server {

// Wakes the long polls of this process when there may be something for them. Other servers' changes are seen by looking again.
class WorkSignal {
 public:
  void notify();
  // Until notified after `seen`, or the time is over. Answers what to pass as `seen` next.
  uint64_t wait(uint64_t seen, Duration timeout);
  uint64_t now() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t count_ = 0;
};

class WorkHandlers {
 public:
  explicit WorkHandlers(run::RunContext& context)
      : context_(context), runs_(context), nodes_(context), attempts_(context), scheduler_(context) {}

  // For people and their tokens.
  Result<api::Run> create_run(const identity::Principal& who, const api::CreateRun& body,
                              const volume::AlsoInTx<api::Run>& also = {});
  Result<api::RunList> list_runs(const identity::Principal& who, const api::RunsQuery& query);
  Result<api::Run> get_run(const identity::Principal& who, RunId id);
  Result<api::Run> stop_run(const identity::Principal& who, RunId id, const api::StopRun& body,
                            const volume::AlsoInTx<api::Run>& also = {});
  Result<api::LogPage> run_logs(const identity::Principal& who, RunId id, const api::LogsQuery& query,
                                const Deadline& deadline);
  Result<api::CheckpointList> run_checkpoints(const identity::Principal& who, RunId id);
  Result<api::NodeList> list_nodes(const identity::Principal& who);

  // For node tokens (scope node).
  Result<api::RegisteredNode> register_node(const identity::Principal& who, const api::RegisterNode& body);
  Result<api::PollAnswer> poll_node(const identity::Principal& who, NodeId node, const api::PollNode& body,
                                    const Deadline& deadline);
  Result<api::AttemptStart> start_attempt(const identity::Principal& who, AttemptId id, const api::StartAttempt& body);
  Result<api::AttemptHeartbeatAnswer> heartbeat_attempt(const identity::Principal& who, AttemptId id,
                                                        const api::HeartbeatAttempt& body);
  Status finish_attempt(const identity::Principal& who, AttemptId id, const api::FinishAttempt& body);

  // Background, every few seconds in one server at a time or in all: expiry, then placement, then log removal. Errors are
  // logged; the next round tries again.
  void tick();

 private:
  void schedule_now();

  run::RunContext& context_;
  run::Runs runs_;
  run::Nodes nodes_;
  run::Attempts attempts_;
  run::Scheduler scheduler_;
  WorkSignal signal_;
};

}  // namespace cairn::server
