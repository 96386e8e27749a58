#include "run/scheduler.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/log.h"
#include "run/internal.h"
#include "run/nodes.h"
#include "volume/leases.h"

namespace cairn::run {
namespace {

constexpr int64_t kQueueMax = 1'000;

int64_t gpus_of(const catalog::NodeRow& node, std::string_view type) {
  int64_t count = 0;
  for (const GpuWish& gpu : parse_gpus(node.gpus)) {
    if (type.empty() || gpu.type == type) count += gpu.count;
  }
  return count;
}

Result<std::vector<NodeLoad>> read_loads(catalog::Tx& tx) {
  CAIRN_TRY(std::vector<catalog::NodeRow> nodes, catalog::list_nodes(tx));
  std::vector<NodeLoad> loads;
  for (catalog::NodeRow& node : nodes) {
    NodeLoad load;
    CAIRN_TRY(std::vector<catalog::RunRow> runs, catalog::runs_on_node(tx, node.id));
    load.runs = static_cast<int64_t>(runs.size());
    for (const catalog::RunRow& run : runs) load.gpus_used += run.gpu_count;
    load.node = std::move(node);
    loads.push_back(std::move(load));
  }
  return loads;
}

}  // namespace

Placement choose_node(const std::vector<NodeLoad>& nodes, const GpuWish& gpu, std::string_view wanted_node) {
  const NodeLoad* best = nullptr;
  int64_t most_gpus = 0;
  bool any_ready = false;
  for (const NodeLoad& load : nodes) {
    if (!wanted_node.empty() && load.node.name != wanted_node) continue;
    if (load.node.state != name(NodeState::kReady) || load.node.draining) continue;
    any_ready = true;
    int64_t total = gpus_of(load.node, gpu.type);
    most_gpus = std::max(most_gpus, total);
    // A node's GPUs are given away by number, so what others use counts against every type.
    int64_t all = gpus_of(load.node, {});
    if (gpu.count > 0 && (total < gpu.count || all - load.gpus_used < gpu.count)) continue;
    auto key = [](const NodeLoad& l) { return std::tuple(l.runs, -l.node.disk_free_bytes, l.node.name); };
    if (best == nullptr || key(load) < key(*best)) best = &load;
  }
  Placement placement;
  if (best != nullptr) {
    placement.node = best->node.id;
  } else if (!any_ready) {
    placement.reason = wanted_node.empty() ? "waits for a node: none is ready"
                                           : fmt::format("waits for node '{}': it is not ready", wanted_node);
  } else {
    placement.reason = fmt::format("waits for {} GPU{}{}: no ready node has as many free (the largest has {})", gpu.count,
                                   gpu.count == 1 ? "" : "s", gpu.type.empty() ? "" : " of type " + gpu.type, most_gpus);
  }
  return placement;
}

Status check_wish(const std::vector<catalog::NodeRow>& nodes, const GpuWish& gpu, std::string_view wanted_node) {
  if (nodes.empty()) return ok();
  bool known = false;
  int64_t most = 0;
  std::string there;
  for (const catalog::NodeRow& node : nodes) {
    if (!wanted_node.empty() && node.name != wanted_node) continue;
    known = true;
    most = std::max(most, gpus_of(node, gpu.type));
    if (gpus_of(node, {}) > 0) there += fmt::format("{}{} ({})", there.empty() ? "" : ", ", node.gpus, node.name);
  }
  if (!known) return Error(Code::kNodeNotFound, fmt::format("there is no node '{}'", wanted_node), "list them with: cairn nodes list");
  if (most >= gpu.count) return ok();
  std::string wish = fmt::format("{} GPU{}{}", gpu.count, gpu.count == 1 ? "" : "s", gpu.type.empty() ? "" : " of type " + gpu.type);
  std::string where = wanted_node.empty() ? "no node has" : fmt::format("node '{}' has not", wanted_node);
  return Error(Code::kGpuTypeUnavailable,
               fmt::format("{} {}; GPUs there are: {}", where, wish, there.empty() ? "none" : there),
               "run it on a CPU with --gpu-type cpu, or ask for what 'cairn nodes list' shows");
}

// Takes the leases of all writable mounts, in one order for everybody. `taking` is the volume asked for last.
Result<std::vector<catalog::AttemptGrantRow>> Scheduler::take_leases(catalog::Tx& tx, const catalog::RunRow& run,
                                                                     int64_t attempt, std::string& taking) {
  CAIRN_TRY(std::vector<catalog::RunMountRow> mounts, catalog::run_mounts(tx, run.id));
  std::map<VolumeId, size_t> writable;
  for (size_t i = 0; i < mounts.size(); ++i) {
    if (!mounts[i].read_only) writable[mounts[i].volume] = i;
  }
  std::vector<catalog::AttemptGrantRow> grants;
  std::optional<UserId> user = UserId::from_hex(run.owner_id);
  for (const auto& [volume, position] : writable) {
    taking = mounts[position].volume_name;
    volume::LeaseRequest request;
    request.volume = volume;
    request.kind = volume::HolderKind::kRun;
    request.holder = internal::holder_name(run.id, attempt);
    if (user) request.user = *user;
    request.user_name = run.user_name;
    CAIRN_TRY(volume::Lease lease, context_.leases.acquire(tx, request));
    catalog::AttemptGrantRow grant;
    grant.position = static_cast<int64_t>(position);
    grant.volume = volume;
    grant.lease = lease.id;
    grants.push_back(grant);
  }
  taking.clear();
  return grants;
}

// True when the run was placed; `reason` says why it still waits.
Result<bool> Scheduler::place(catalog::Tx& tx, RunId id, AttemptId attempt_id, std::string& reason, std::string& taking) {
  reason.clear();
  taking.clear();
  CAIRN_TRY(catalog::RunRow run, internal::require_run(tx, id));
  if (run.state != name(RunState::kQueued)) return false;
  CAIRN_TRY(std::vector<NodeLoad> loads, read_loads(tx));
  Placement placement = choose_node(loads, GpuWish{run.gpu_count, run.gpu_type}, run.wanted_node);
  if (!placement.node) {
    reason = placement.reason;
    return false;
  }
  catalog::AttemptRow attempt;
  attempt.id = attempt_id;
  attempt.run = run.id;
  attempt.number = run.attempt + 1;
  attempt.node = *placement.node;
  attempt.state = name(AttemptState::kOffered);
  CAIRN_TRY(attempt.opened_at, clock_.now(tx));
  CAIRN_TRY(attempt.seen_lease, clock_.lease_now(tx));
  CAIRN_TRY(std::vector<catalog::AttemptGrantRow> grants, take_leases(tx, run, attempt.number, taking));
  CAIRN_CHECK_OK(catalog::insert_attempt(tx, attempt));
  CAIRN_CHECK_OK(catalog::set_attempt_grants(tx, attempt.id, grants));
  CAIRN_TRY([[maybe_unused]] bool updated, catalog::place_run(tx, run.id, placement.node, attempt.number));
  catalog::RunMove details;
  details.reason = "";
  CAIRN_CHECK_OK(internal::move(tx, run, RunState::kPending, details));
  return true;
}

Status Scheduler::fail(RunId id, const std::string& why) {
  std::vector<catalog::RunMountRow> mounts;
  Status failed = context_.storage.db.transact([&](catalog::Tx& tx) -> Status {
    mounts.clear();
    CAIRN_TRY(catalog::RunRow run, internal::require_run(tx, id));
    if (run.state != name(RunState::kQueued)) return ok();
    catalog::RunMove details;
    details.reason = why;
    CAIRN_TRY(Time now, clock_.now(tx));
    details.ended_at = now;
    CAIRN_TRY(mounts, catalog::run_mounts(tx, id));
    return internal::move(tx, run, RunState::kFailed, details);
  });
  if (failed) internal::drop_workspace(context_, mounts);
  return failed;
}

Result<int64_t> Scheduler::run_once() {
  catalog::Db& db = context_.storage.db;
  CAIRN_TRY(std::vector<catalog::RunRow> queue, db.read([&](catalog::Tx& tx) {
    return catalog::runs_in_state(tx, name(RunState::kQueued), kQueueMax);
  }));
  int64_t placed = 0;
  for (const catalog::RunRow& waiting : queue) {
    if (waiting.attempt >= static_cast<int64_t>(limits::kAttemptsMax)) {
      std::string why = fmt::format("it was offered {} times to nodes that never started it: look at their agents, then start the run again", waiting.attempt);
      if (Status failed = fail(waiting.id, why); !failed) {
        log_warning("cannot end run {}: {}", waiting.id.hex(), failed.error().to_string());
      }
      continue;
    }
    std::string reason;
    std::string taking;
    AttemptId attempt = AttemptId::random(context_.storage.random);
    auto result = db.transact([&](catalog::Tx& tx) { return place(tx, waiting.id, attempt, reason, taking); });
    if (result && *result) {
      ++placed;
      continue;
    }
    Status noted;
    if (!result && result.error().code() == Code::kVolumeNotFound) {
      std::string why = fmt::format("volume '{}' is gone: {}", taking, result.error().message());
      noted = fail(waiting.id, why);
    } else if (!result && result.error().code() != Code::kWriterLeaseHeld) {
      log_warning("cannot place run {}: {}", waiting.id.hex(), result.error().to_string());
      continue;
    } else {
      if (!result) reason = fmt::format("waits for volume '{}': {}", taking, result.error().message());
      // Most runs wait for what they waited for before.
      if (reason.empty() || reason == waiting.reason) continue;
      noted = db.transact([&](catalog::Tx& tx) { return catalog::set_run_reason(tx, waiting.id, reason); });
    }
    if (!noted) log_warning("cannot note what became of run {}: {}", waiting.id.hex(), noted.error().to_string());
  }
  return placed;
}

}  // namespace cairn::run
