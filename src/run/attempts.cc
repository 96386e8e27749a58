#include "run/attempts.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/log.h"
#include "catalog/uploads.h"
#include "run/internal.h"
#include "volume/leases.h"

namespace cairn::run {
namespace {

using internal::require_run;
using internal::state_of;
using internal::view_of;

constexpr size_t kLogLinesPerSignMax = 2'000;
constexpr size_t kReasonBytesMax = 2'000;
constexpr int64_t kTrimEvery = 1'000;

// The attempt, for whoever presents its secret.
Result<catalog::AttemptRow> require_attempt(catalog::Tx& tx, AttemptId id, std::string_view secret) {
  CAIRN_TRY(std::optional<catalog::AttemptRow> attempt, catalog::find_attempt(tx, id));
  if (!attempt || !internal::secret_matches(attempt->secret_hash, secret)) {
    return Error(Code::kNotAllowed, fmt::format("no attempt {} with this secret", id.hex()));
  }
  return *std::move(attempt);
}

Result<std::vector<std::string>> resolve_command(const RunView& view, const RunSettings& settings) {
  if (view.run.kind != "train") return shell_command(view.run.command);
  EngineValues values;
  bool on_volume = view.primary() != nullptr;
  values.volume = "/volume";
  values.output = on_volume ? "/volume/" + output_directory(view.run.id) : "/output";
  values.config = values.output + "/configs/" + (view.run.config_name.empty() ? "config.toml" : view.run.config_name);
  values.gpus = view.run.gpu_count;
  return engine_command(settings.engines, view.run.engine, values);
}

AttemptState attempt_state_for(RunState state) {
  switch (state) {
    case RunState::kRunning:
      return AttemptState::kRunning;
    case RunState::kSyncing:
      return AttemptState::kSyncing;
    case RunState::kQueued:
    case RunState::kPending:
    case RunState::kCreating:
    case RunState::kCompleted:
    case RunState::kFailed:
    case RunState::kStopped:
    case RunState::kLost:
      return AttemptState::kCreating;
  }
  return AttemptState::kCreating;
}

bool is_stale(const catalog::AttemptRow& attempt) {
  return attempt.state == name(AttemptState::kLost) || attempt.state == name(AttemptState::kSuperseded) ||
         attempt.state == name(AttemptState::kEnded);
}

std::string cut(std::string text) {
  if (text.size() > kReasonBytesMax) text.resize(kReasonBytesMax);
  return text;
}

// Takes the leases of all writable mounts and pins the read-only ones, for this start of the attempt.
Result<std::vector<GrantedMount>> take_grants(catalog::Tx& tx, RunContext& context, const RunView& view,
                                              const catalog::AttemptRow& attempt, std::string_view secret) {
  std::vector<GrantedMount> granted;
  std::vector<catalog::AttemptGrantRow> rows;
  std::optional<UserId> user = UserId::from_hex(view.run.owner_id);
  for (size_t i = 0; i < view.mounts.size(); ++i) {
    GrantedMount mount;
    mount.mount = view.mounts[i];
    catalog::AttemptGrantRow row;
    row.position = static_cast<int64_t>(i);
    row.volume = mount.mount.volume;
    if (mount.mount.read_only) {
      CAIRN_TRY(volume::Pinned pinned, context.reads.pin(tx, mount.mount.volume, mount.mount.snapshot,
                                                         internal::holder_name(view.run.id, attempt.number)));
      mount.pin = pinned.pin;
      mount.base = std::move(pinned.snapshot);
      row.pin = mount.pin;
    } else {
      volume::LeaseRequest request;
      request.volume = mount.mount.volume;
      request.kind = volume::HolderKind::kRun;
      request.holder = internal::holder_name(view.run.id, attempt.number);
      if (user) request.user = *user;
      request.user_name = view.run.user_name;
      request.secret = internal::lease_secret(secret, i);
      CAIRN_TRY(volume::OpenUpload upload, context.uploads.open(tx, request));
      mount.pin = upload.pin;
      mount.base = upload.base;
      row.upload = upload.id;
      row.lease = upload.lease.id;
      mount.upload = std::move(upload);
    }
    rows.push_back(row);
    granted.push_back(std::move(mount));
  }
  CAIRN_CHECK_OK(catalog::set_attempt_grants(tx, attempt.id, rows));
  return granted;
}

// What an earlier start was granted, as it stands.
Result<std::vector<GrantedMount>> grants_again(catalog::Tx& tx, RunContext& context, const RunView& view,
                                               const catalog::AttemptRow& attempt, std::string_view secret) {
  CAIRN_TRY(std::vector<catalog::AttemptGrantRow> rows, catalog::attempt_grants(tx, attempt.id));
  std::vector<GrantedMount> granted;
  for (const catalog::AttemptGrantRow& row : rows) {
    auto position = static_cast<size_t>(row.position);
    if (position >= view.mounts.size()) return Error(Code::kDataCorrupt, "a grant of no mount of run " + view.run.id.hex());
    GrantedMount mount;
    mount.mount = view.mounts[position];
    if (row.upload) {
      CAIRN_TRY(volume::OpenUpload upload, context.uploads.again(tx, *row.upload, internal::lease_secret(secret, position)));
      mount.pin = upload.pin;
      mount.base = upload.base;
      mount.upload = std::move(upload);
    } else if (row.pin) {
      CAIRN_TRY(volume::Pinned pinned, context.reads.renew(tx, *row.pin));
      mount.pin = pinned.pin;
      mount.base = std::move(pinned.snapshot);
    }
    granted.push_back(std::move(mount));
  }
  return granted;
}

// What the attempt published last on the run's primary volume, for a node that died before it noted it.
Result<std::optional<int64_t>> last_published(catalog::Tx& tx, AttemptId attempt, RunId run) {
  CAIRN_TRY(std::vector<catalog::RunMountRow> mounts, catalog::run_mounts(tx, run));
  CAIRN_TRY(std::vector<catalog::AttemptGrantRow> grants, catalog::attempt_grants(tx, attempt));
  for (const catalog::AttemptGrantRow& grant : grants) {
    auto position = static_cast<size_t>(grant.position);
    if (!grant.upload || position >= mounts.size() || !mounts[position].primary) continue;
    CAIRN_TRY(std::optional<catalog::UploadRow> upload, catalog::uploads::find(tx, *grant.upload));
    if (upload && upload->published_number > 0) return std::optional<int64_t>(upload->published_number);
  }
  return std::optional<int64_t>();
}

}  // namespace

Result<StartedAttempt> Attempts::start(AttemptId id, std::string_view secret) {
  std::vector<PinId> pins;
  auto result = context_.storage.db.transact([&](catalog::Tx& tx) -> Result<StartedAttempt> {
    pins.clear();
    StartedAttempt started;
    CAIRN_TRY(started.attempt, require_attempt(tx, id, secret));
    CAIRN_TRY(catalog::RunRow run, require_run(tx, started.attempt.run));
    if (run.attempt != started.attempt.number || is_stale(started.attempt)) {
      return Error(Code::kRunStateConflict,
                   fmt::format("attempt {} of run {} is {}", started.attempt.number, run.id.hex(), started.attempt.state));
    }
    if (run.stop_requested || !(run.state == name(RunState::kPending) || run.state == name(RunState::kCreating))) {
      return Error(Code::kRunStateConflict,
                   fmt::format("run {} is {}{} and does not start", run.id.hex(), run.state, run.stop_requested ? ", to be stopped" : ""));
    }
    CAIRN_TRY(Time now, clock_.now(tx));
    CAIRN_TRY(catalog::LeaseTime lease_now, clock_.lease_now(tx));
    CAIRN_TRY(started.view, view_of(tx, run));
    if (started.attempt.state == name(AttemptState::kOffered)) {
      // Fence first: what held its place in the queue ends here.
      CAIRN_TRY(pins, internal::release_grants(tx, context_, id));
      CAIRN_TRY(started.mounts, take_grants(tx, context_, started.view, started.attempt, secret));
    } else {
      CAIRN_TRY(started.mounts, grants_again(tx, context_, started.view, started.attempt, secret));
    }
    CAIRN_CHECK_OK(internal::move(tx, started.attempt, AttemptState::kCreating, now));
    CAIRN_TRY([[maybe_unused]] bool touched, catalog::touch_attempt(tx, id, lease_now));
    CAIRN_CHECK_OK(internal::move(tx, started.view.run, RunState::kCreating));
    CAIRN_TRY(started.command, resolve_command(started.view, context_.settings));
    return started;
  });
  if (!result) return result;
  internal::drop_pins(context_, pins);
  for (GrantedMount& mount : result->mounts) {
    CAIRN_TRY(volume::VolumeInfo info, context_.volumes.find(mount.mount.volume));
    mount.size_bytes = info.size_bytes;
  }
  return result;
}

Result<AttemptAnswer> Attempts::heartbeat(AttemptId id, std::string_view secret, const AttemptSign& sign) {
  if (sign.lines.size() > kLogLinesPerSignMax) return Error(Code::kLimitExceeded, "at most 2,000 log lines a heartbeat");
  if (!is_on_node(sign.state)) return Error(Code::kRequestInvalid, "a heartbeat says CREATING, RUNNING or SYNCING");
  return context_.storage.db.transact([&](catalog::Tx& tx) -> Result<AttemptAnswer> {
    CAIRN_TRY(catalog::AttemptRow attempt, require_attempt(tx, id, secret));
    CAIRN_TRY(catalog::RunRow run, require_run(tx, attempt.run));
    CAIRN_TRY(Time now, clock_.now(tx));
    CAIRN_TRY(catalog::LeaseTime lease_now, clock_.lease_now(tx));
    AttemptAnswer answer;
    answer.log_sequence = attempt.log_seq;
    bool stale = is_stale(attempt);
    answer.stop = run.stop_requested || stale;
    answer.grace_seconds = run.stop_requested ? run.stop_grace_seconds : run.grace_seconds;
    CAIRN_TRY([[maybe_unused]] bool touched, catalog::touch_attempt(tx, id, lease_now));
    if (!stale && run.attempt == attempt.number) {
      AttemptState to = attempt_state_for(sign.state);
      std::optional<AttemptState> from = attempt_state(attempt.state);
      // A heartbeat that was overtaken by a later one changes nothing.
      if (from && *from != to && allowed(*from, to)) {
        CAIRN_CHECK_OK(internal::move(tx, attempt, to, now));
        catalog::RunMove details;
        if (sign.state == RunState::kRunning) details.started_at = now;
        if (state_of(run) != sign.state) CAIRN_CHECK_OK(internal::move(tx, run, sign.state, details));
      }
      catalog::RunProgress progress = sign.progress;
      progress.message = cut(progress.message);
      CAIRN_TRY([[maybe_unused]] bool updated, catalog::update_run_progress(tx, run.id, progress));
    }
    if (sign.after_reboot) {
      // The upload stays open without its lease: a publication through it becomes a side snapshot.
      CAIRN_TRY(std::vector<catalog::AttemptGrantRow> grants, catalog::attempt_grants(tx, id));
      for (const catalog::AttemptGrantRow& grant : grants) {
        if (grant.lease) CAIRN_CHECK_OK(context_.leases.release(tx, *grant.lease));
      }
    }
    // Lines that follow the last one stored; a gap is answered with that number.
    if (!sign.lines.empty() && sign.log_sequence >= 1 && sign.log_sequence <= attempt.log_seq + 1) {
      size_t skip = static_cast<size_t>(attempt.log_seq + 1 - sign.log_sequence);
      if (skip < sign.lines.size()) {
        std::vector<catalog::LogRow> lines(sign.lines.begin() + static_cast<std::ptrdiff_t>(skip), sign.lines.end());
        int64_t last = attempt.log_seq + static_cast<int64_t>(lines.size());
        CAIRN_TRY(bool claimed, catalog::set_attempt_log_seq(tx, id, attempt.log_seq, last));
        if (!claimed) return Error(Code::kBusy, "another heartbeat of this attempt stores its log");
        CAIRN_TRY(int64_t seq, catalog::append_log_lines(tx, run.id, attempt.number, lines));
        if (seq / kTrimEvery != run.log_seq / kTrimEvery) {
          CAIRN_TRY([[maybe_unused]] int64_t trimmed,
                    catalog::trim_log_lines(tx, run.id, context_.settings.log_lines_kept));
        }
        answer.log_sequence = last;
      }
    }
    return answer;
  });
}

Result<RunView> Attempts::finish(AttemptId id, std::string_view secret, const AttemptEnd& end) {
  if (end.outcome != RunState::kCompleted && end.outcome != RunState::kFailed && end.outcome != RunState::kStopped) {
    return Error(Code::kRequestInvalid, "an attempt ends COMPLETED, FAILED or STOPPED");
  }
  std::vector<PinId> pins;
  bool over = false;
  auto result = context_.storage.db.transact([&](catalog::Tx& tx) -> Result<RunView> {
    pins.clear();
    CAIRN_TRY(catalog::AttemptRow attempt, require_attempt(tx, id, secret));
    CAIRN_TRY(catalog::RunRow run, require_run(tx, attempt.run));
    if (attempt.state != name(AttemptState::kEnded)) {
      CAIRN_TRY(Time now, clock_.now(tx));
      CAIRN_TRY(pins, internal::release_grants(tx, context_, id));
      CAIRN_CHECK_OK(internal::move(tx, attempt, AttemptState::kEnded, {}, now));
      if (run.attempt == attempt.number) {
        catalog::RunProgress progress;
        progress.saved_step = end.saved_step;
        progress.saved_snapshot = end.saved_snapshot;
        if (!end.saved_snapshot) {
          CAIRN_TRY(progress.saved_snapshot, last_published(tx, attempt.id, run.id));
        }
        if (progress.saved_snapshot) progress.saved_at = now;
        CAIRN_TRY([[maybe_unused]] bool updated, catalog::update_run_progress(tx, run.id, progress));
        if (!is_final(state_of(run))) {
          catalog::RunMove details;
          details.reason = cut(end.reason);
          details.ended_at = now;
          details.exit_code = end.exit_code;
          if (state_of(run) == RunState::kPending && end.outcome == RunState::kCompleted) {
            return Error(Code::kRunStateConflict, "a run that did not start cannot be complete");
          }
          CAIRN_CHECK_OK(internal::move(tx, run, end.outcome, details));
        } else if (run.state == name(RunState::kLost)) {
          CAIRN_CHECK_OK(catalog::set_run_reason(
              tx, run.id, cut(fmt::format("its node was lost and came back ({}); {}", name(end.outcome), end.reason))));
        }
        CAIRN_CHECK_OK(internal::add_event(tx, now, run, "node", "run.end", run.state));
      }
    }
    over = run.attempt == attempt.number;
    CAIRN_TRY(run, require_run(tx, run.id));
    return view_of(tx, std::move(run));
  });
  if (result) {
    internal::drop_pins(context_, pins);
    if (over) internal::drop_workspace(context_, result->mounts);
  }
  return result;
}

Result<int64_t> Attempts::expire() {
  const RunSettings& settings = context_.settings;
  return context_.storage.db.transact([&](catalog::Tx& tx) -> Result<int64_t> {
    CAIRN_TRY(Time now, clock_.now(tx));
    CAIRN_TRY(catalog::LeaseTime lease_now, clock_.lease_now(tx));
    Duration shortest = std::min(settings.offer_time, settings.attempt_silent);
    CAIRN_TRY(std::vector<catalog::AttemptRow> silent, catalog::silent_attempts(tx, lease_now - shortest));
    int64_t changed = 0;
    for (catalog::AttemptRow& attempt : silent) {
      CAIRN_TRY(catalog::RunRow run, require_run(tx, attempt.run));
      bool newest = run.attempt == attempt.number;
      if (attempt.state == name(AttemptState::kOffered)) {
        if (lease_now - attempt.seen_lease < settings.offer_time) continue;
        // Only its place in the queue was held: no pins yet.
        CAIRN_TRY([[maybe_unused]] std::vector<PinId> pins, internal::release_grants(tx, context_, attempt.id));
        CAIRN_CHECK_OK(internal::move(tx, attempt, AttemptState::kEnded, {}, now));
        if (newest && run.state == name(RunState::kPending)) {
          catalog::RunMove details;
          details.reason = "waits for a node: the one chosen did not start it";
          CAIRN_CHECK_OK(internal::move(tx, run, RunState::kQueued, details));
          CAIRN_TRY([[maybe_unused]] bool placed, catalog::place_run(tx, run.id, std::nullopt, run.attempt));
        }
      } else {
        if (lease_now - attempt.seen_lease < settings.attempt_silent) continue;
        CAIRN_CHECK_OK(internal::move(tx, attempt, AttemptState::kLost));
        if (newest && !is_final(state_of(run))) {
          catalog::RunMove details;
          details.reason = fmt::format(
              "its node was silent for {} s; what was published before stays, and what the node brings back is published "
              "or kept aside",
              std::chrono::duration_cast<seconds>(settings.attempt_silent).count());
          details.ended_at = now;
          CAIRN_CHECK_OK(internal::move(tx, run, RunState::kLost, details));
          CAIRN_CHECK_OK(internal::add_event(tx, now, run, "server", "run.lost", attempt.state));
        }
      }
      ++changed;
    }
    return changed;
  });
}

}  // namespace cairn::run
