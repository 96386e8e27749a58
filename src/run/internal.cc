#include "run/internal.h"

#include <fmt/format.h>

#include "base/log.h"
#include "catalog/events.h"
#include "codec/digest.h"
#include "codec/hex.h"
#include "volume/leases.h"
#include "volume/reads.h"
#include "volume/uploads.h"

namespace cairn::run {

std::string output_directory(RunId id) { return "runs/" + id.hex(); }

const catalog::RunMountRow* RunView::primary() const {
  for (const catalog::RunMountRow& mount : mounts) {
    if (mount.primary) return &mount;
  }
  return nullptr;
}

namespace internal {

std::string secret_hash(std::string_view secret) { return codec::sha256(codec::as_bytes(secret)).hex(); }

bool secret_matches(std::string_view stored_hash, std::string_view secret) {
  return !stored_hash.empty() &&
         codec::constant_time_equal(codec::as_bytes(stored_hash), codec::as_bytes(secret_hash(secret)));
}

std::string lease_secret(std::string_view attempt_secret, size_t position) {
  return secret_hash(fmt::format("lease of mount {} of attempt {}", position, attempt_secret));
}

std::string holder_name(RunId run, int64_t attempt) { return fmt::format("run-{}.{}", run.hex(), attempt); }

Result<catalog::RunRow> require_run(catalog::Tx& tx, RunId id) {
  CAIRN_TRY(std::optional<catalog::RunRow> run, catalog::find_run(tx, id));
  if (!run) return Error(Code::kRunNotFound, "no run " + id.hex(), "cairn train list shows all runs");
  return *std::move(run);
}

Result<RunView> view_of(catalog::Tx& tx, catalog::RunRow run) {
  RunView view;
  CAIRN_TRY(view.mounts, catalog::run_mounts(tx, run.id));
  if (run.node) {
    CAIRN_TRY(std::optional<catalog::NodeRow> node, catalog::find_node(tx, *run.node));
    if (node) view.node_name = node->name;
  }
  view.run = std::move(run);
  return view;
}

RunState state_of(const catalog::RunRow& run) {
  std::optional<RunState> state = run_state(run.state);
  CAIRN_CHECK(state.has_value());  // the table's constraint knows the same words
  return *state;
}

Status move(catalog::Tx& tx, catalog::RunRow& run, RunState to, catalog::RunMove details) {
  RunState from = state_of(run);
  if (!allowed(from, to)) {
    return Error(Code::kRunStateConflict, fmt::format("run {} is {} and cannot become {}", run.id.hex(), run.state, name(to)));
  }
  details.from = name(from);
  details.to = name(to);
  CAIRN_TRY(bool moved, catalog::move_run(tx, run.id, details));
  if (!moved) return Error(Code::kRunStateConflict, fmt::format("run {} is no longer {}", run.id.hex(), name(from)));
  CAIRN_TRY(run, require_run(tx, run.id));
  return ok();
}

Status move(catalog::Tx& tx, catalog::AttemptRow& attempt, AttemptState to, std::optional<Time> started_at,
            std::optional<Time> ended_at) {
  std::optional<AttemptState> from = attempt_state(attempt.state);
  CAIRN_CHECK(from.has_value());
  if (!allowed(*from, to)) {
    return Error(Code::kRunStateConflict, fmt::format("attempt {} of run {} is {} and cannot become {}", attempt.number,
                                                      attempt.run.hex(), attempt.state, name(to)));
  }
  CAIRN_TRY(bool moved, catalog::move_attempt(tx, attempt.id, name(*from), name(to), started_at, ended_at));
  if (!moved) {
    return Error(Code::kRunStateConflict,
                 fmt::format("attempt {} of run {} is no longer {}", attempt.number, attempt.run.hex(), name(*from)));
  }
  attempt.state = name(to);
  if (started_at && !attempt.started_at) attempt.started_at = started_at;
  if (ended_at) attempt.ended_at = ended_at;
  return ok();
}

Result<std::vector<PinId>> release_grants(catalog::Tx& tx, RunContext& context, AttemptId attempt) {
  CAIRN_TRY(std::vector<catalog::AttemptGrantRow> grants, catalog::attempt_grants(tx, attempt));
  std::vector<PinId> pins;
  for (const catalog::AttemptGrantRow& grant : grants) {
    if (grant.upload) {
      CAIRN_CHECK_OK(context.uploads.close(tx, *grant.upload));
    } else if (grant.lease) {
      CAIRN_CHECK_OK(context.leases.release(tx, *grant.lease));
    }
    if (grant.pin) pins.push_back(*grant.pin);
  }
  return pins;
}

void drop_pins(RunContext& context, const std::vector<PinId>& pins) {
  for (PinId pin : pins) {
    Status status = context.reads.unpin(pin);
    // It expires by itself.
    if (!status && status.error().code() != Code::kPinNotFound) {
      log_warning("cannot drop pin {}: {}", pin.hex(), status.error().to_string());
    }
  }
}

void drop_workspace(RunContext& context, const std::vector<catalog::RunMountRow>& mounts) {
  for (const catalog::RunMountRow& mount : mounts) {
    if (!mount.workspace) continue;
    Status status = context.volumes.purge(mount.volume);
    if (!status) log_warning("cannot remove workspace {}: {}", mount.volume_name, status.error().to_string());
  }
}

Status add_event(catalog::Tx& tx, Time now, const catalog::RunRow& run, std::string_view actor, std::string_view action,
                 std::string_view detail) {
  catalog::Event event;
  event.at = now;
  event.actor_name = actor;
  event.action = action;
  event.object_kind = "run";
  event.object_name = run.id.hex();
  event.detail = detail;
  return catalog::add_event(tx, event);
}

}  // namespace internal
}  // namespace cairn::run
