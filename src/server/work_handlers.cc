#include "server/work_handlers.h"

#include <algorithm>

#include "base/log.h"
#include "catalog/run_logs.h"
#include "server/training_request.h"

namespace cairn::server {
namespace {

using identity::Principal;
using identity::Scope;

// Between looks at the catalog, for what another server changed.
constexpr Duration kLookEvery = seconds(1);
constexpr uint64_t kWaitSecondsMax = 30;
constexpr int64_t kOldLogsPerTick = 20;

// What an admin asks is about everybody's runs.
UserId owner_filter(const Principal& who) { return who.is_admin() ? UserId() : who.user; }

template <class T>
uint64_t unsigned_of(T value) {
  return value < 0 ? 0 : static_cast<uint64_t>(value);
}

std::optional<int64_t> signed_of(const std::optional<uint64_t>& value) {
  return value ? std::optional<int64_t>(static_cast<int64_t>(*value)) : std::nullopt;
}

api::RunState wire_state(std::string_view state) {
  // Both tables hold the same words.
  return api::state_from_name(state).value_or(api::RunState::kFailed);
}

api::Run to_wire(const run::RunView& view, Time now) {
  const catalog::RunRow& row = view.run;
  api::Run run;
  run.id = row.id;
  run.kind = row.kind == "train" ? api::RunKind::kTrain : api::RunKind::kCommand;
  run.state = wire_state(row.state);
  run.user = row.user_name;
  for (const catalog::RunMountRow& mount : view.mounts) {
    if (mount.workspace) continue;
    if (mount.primary) run.volume = mount.volume_name;
    api::MountRequest request;
    request.volume = mount.volume_name;
    request.directory = mount.directory;
    request.snapshot = unsigned_of(mount.snapshot.value_or(0));
    request.read_only = mount.read_only;
    request.shared = mount.shared;
    request.primary = mount.primary;
    run.mounts.push_back(std::move(request));
  }
  run.command = row.command;
  run.config_name = row.config_name;
  run.node = view.node_name;
  run.attempt = unsigned_of(row.attempt);
  run.exit_code = row.exit_code;
  run.reason = row.reason;
  run.message = row.message;
  if (row.saved_snapshot) {
    api::SavedState saved;
    if (row.saved_step) saved.step = unsigned_of(*row.saved_step);
    saved.snapshot = unsigned_of(*row.saved_snapshot);
    saved.at = row.saved_at.value_or(row.created_at);
    saved.age_seconds = unsigned_of(std::chrono::duration_cast<seconds>(now - saved.at).count());
    run.saved = saved;
  }
  run.pending.files = unsigned_of(row.pending_files);
  run.pending.bytes = unsigned_of(row.pending_bytes);
  run.safe_to_stop = row.safe_to_stop;
  run.stop_requested = row.stop_requested;
  run.created_at = row.created_at;
  run.started_at = row.started_at;
  run.ended_at = row.ended_at;
  return run;
}

api::Pin to_wire(PinId pin, const volume::SnapshotInfo& snapshot) {
  api::Pin wire;
  wire.pin = pin;
  wire.snapshot = unsigned_of(snapshot.number);
  wire.root = snapshot.root;
  wire.entries = unsigned_of(snapshot.entries);
  wire.files = unsigned_of(snapshot.files);
  wire.bytes = unsigned_of(snapshot.bytes);
  return wire;
}

api::MountGrant to_wire(const run::GrantedMount& granted, Time pin_expires) {
  api::MountGrant grant;
  grant.volume = granted.mount.volume_name;
  grant.volume_id = granted.mount.volume;
  grant.directory = granted.mount.directory;
  grant.primary = granted.mount.primary;
  grant.read_only = granted.mount.read_only;
  grant.shared = granted.mount.shared;
  grant.size_bytes = unsigned_of(granted.size_bytes);
  grant.base = to_wire(granted.pin, granted.base);
  grant.base.expires_at = pin_expires;
  if (granted.upload) {
    api::Upload upload;
    upload.upload = granted.upload->id;
    upload.volume = granted.upload->volume;
    upload.lease = granted.upload->lease.id;
    upload.secret = granted.upload->lease.secret;
    upload.fence = granted.upload->lease.fence;
    upload.base = grant.base;
    upload.expires_at = granted.upload->lease.expires_at;
    grant.upload = std::move(upload);
  }
  return grant;
}

run::NewMount from_wire(const api::MountRequest& request) {
  run::NewMount mount;
  mount.volume = request.volume;
  mount.directory = request.directory;
  mount.primary = request.primary;
  mount.read_only = request.read_only;
  mount.shared = request.shared;
  mount.create = request.create;
  mount.size_bytes = signed_of(request.size_bytes);
  if (request.snapshot > 0) mount.snapshot = static_cast<int64_t>(request.snapshot);
  return mount;
}

std::optional<run::RunState> domain_state(api::RunState state) { return run::run_state(api::state_name(state)); }

std::vector<api::GpuInfo> to_wire(const std::vector<GpuWish>& gpus) {
  std::vector<api::GpuInfo> wire;
  for (const GpuWish& gpu : gpus) wire.push_back(api::GpuInfo{gpu.type, unsigned_of(gpu.count)});
  return wire;
}

}  // namespace

void WorkSignal::notify() {
  {
    std::lock_guard lock(mutex_);
    ++count_;
  }
  changed_.notify_all();
}

uint64_t WorkSignal::wait(uint64_t seen, Duration timeout) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, timeout, [&] { return count_ != seen; });
  return count_;
}

uint64_t WorkSignal::now() const {
  std::lock_guard lock(mutex_);
  return count_;
}

Result<api::Run> WorkHandlers::create_run(const Principal& who, const api::CreateRun& body,
                                          const volume::AlsoInTx<api::Run>& also) {
  CAIRN_CHECK_OK(who.require(Scope::kFull));
  run::NewRun request;
  request.kind = body.kind == api::RunKind::kTrain ? "train" : "command";
  request.command = body.command;
  request.environment = body.environment;
  request.config = body.config;
  request.config_name = body.config_name;
  request.workspace = body.workspace;
  request.gpu = body.gpu;
  request.node = body.node;
  request.queue = body.queue;
  request.sync_final_only = body.sync_final_only;
  request.grace_seconds = signed_of(body.grace_seconds).value_or(60);
  for (const api::MountRequest& mount : body.mounts) request.mounts.push_back(from_wire(mount));
  if (body.kind == api::RunKind::kTrain) CAIRN_CHECK_OK(read_training_request(context_, who.user, request));
  volume::Actor actor{who.user, who.name};
  Time now = context_.storage.clock.now();
  volume::AlsoInTx<run::RunView> also_view;
  if (also) also_view = [&](catalog::Tx& tx, const run::RunView& view) { return also(tx, to_wire(view, now)); };
  CAIRN_TRY(run::RunView view, runs_.create(actor, request, also_view));
  schedule_now();
  return to_wire(view, now);
}

Result<api::RunList> WorkHandlers::list_runs(const Principal& who, const api::RunsQuery& query) {
  CAIRN_CHECK_OK(who.require(Scope::kRead));
  std::optional<RunId> before;
  if (!query.before.is_none()) before = query.before;
  CAIRN_TRY(std::vector<run::RunView> views,
            runs_.list(owner_filter(who), before, static_cast<int64_t>(std::min<uint64_t>(query.limit, 1000))));
  api::RunList list;
  Time now = context_.storage.clock.now();
  for (const run::RunView& view : views) list.runs.push_back(to_wire(view, now));
  return list;
}

Result<api::Run> WorkHandlers::get_run(const Principal& who, RunId id) {
  CAIRN_CHECK_OK(who.require(Scope::kRead));
  CAIRN_TRY(run::RunView view, runs_.get(owner_filter(who), id));
  return to_wire(view, context_.storage.clock.now());
}

Result<api::Run> WorkHandlers::stop_run(const Principal& who, RunId id, const api::StopRun& body,
                                        const volume::AlsoInTx<api::Run>& also) {
  CAIRN_CHECK_OK(who.require(Scope::kFull));
  Time now = context_.storage.clock.now();
  volume::AlsoInTx<run::RunView> also_view;
  if (also) also_view = [&](catalog::Tx& tx, const run::RunView& view) { return also(tx, to_wire(view, now)); };
  CAIRN_TRY(run::RunView view, runs_.stop(owner_filter(who), id, signed_of(body.grace_seconds), also_view));
  signal_.notify();
  return to_wire(view, now);
}

Result<api::LogPage> WorkHandlers::run_logs(const Principal& who, RunId id, const api::LogsQuery& query,
                                            const Deadline& deadline) {
  CAIRN_CHECK_OK(who.require(Scope::kRead));
  Deadline until = deadline.child(seconds(static_cast<int64_t>(std::min(query.wait_seconds, kWaitSecondsMax))));
  int64_t limit = static_cast<int64_t>(std::min(query.limit, api::kLogLinesPerPageMax));
  uint64_t seen = signal_.now();
  while (true) {
    CAIRN_TRY(run::LogView view,
              runs_.logs(owner_filter(who), id, static_cast<int64_t>(query.after), query.component, limit));
    if (view.lines.empty() && !view.ended && !until.expired()) {
      seen = signal_.wait(seen, std::min<Duration>(kLookEvery, until.remaining()));
      continue;
    }
    api::LogPage page;
    for (catalog::LogRow& row : view.lines) {
      page.lines.push_back(api::LogLine{unsigned_of(row.seq), std::move(row.component), row.at, std::move(row.line)});
    }
    page.next = unsigned_of(view.next);
    page.ended = view.ended;
    return page;
  }
}

Result<api::CheckpointList> WorkHandlers::run_checkpoints(const Principal& who, RunId id) {
  CAIRN_CHECK_OK(who.require(Scope::kRead));
  CAIRN_TRY(std::vector<run::CheckpointView> views, runs_.checkpoints(owner_filter(who), id));
  api::CheckpointList list;
  for (run::CheckpointView& view : views) {
    api::Checkpoint checkpoint;
    checkpoint.step = unsigned_of(view.step);
    checkpoint.path = std::move(view.path);
    checkpoint.state = view.complete ? "COMPLETE" : "INCOMPLETE";
    checkpoint.files = unsigned_of(view.files);
    checkpoint.bytes = unsigned_of(view.bytes);
    checkpoint.snapshot = unsigned_of(view.snapshot);
    checkpoint.at = view.at;
    list.checkpoints.push_back(std::move(checkpoint));
  }
  return list;
}

Result<api::NodeList> WorkHandlers::list_nodes(const Principal& who) {
  CAIRN_CHECK_OK(who.require(Scope::kRead));
  CAIRN_TRY(std::vector<run::NodeView> views, nodes_.list());
  api::NodeList list;
  for (const run::NodeView& view : views) {
    api::Node node;
    node.id = view.node.id;
    node.name = view.node.name;
    node.state = view.node.state;
    node.draining = view.node.draining;
    node.version = view.node.version;
    node.cpus = unsigned_of(view.node.cpus);
    node.memory_bytes = unsigned_of(view.node.memory_bytes);
    node.disk_total_bytes = unsigned_of(view.node.disk_total_bytes);
    node.disk_free_bytes = unsigned_of(view.node.disk_free_bytes);
    node.gpus = to_wire(run::parse_gpus(view.node.gpus));
    node.runs = unsigned_of(view.runs);
    node.registered_at = view.node.registered_at;
    node.seen_at = view.node.seen_at;
    list.nodes.push_back(std::move(node));
  }
  return list;
}

Result<api::RegisteredNode> WorkHandlers::register_node(const Principal& who, const api::RegisterNode& body) {
  CAIRN_CHECK_OK(who.require(Scope::kNode));
  run::NodeFacts facts;
  facts.name = body.name;
  facts.version = body.version;
  facts.boot_id = body.boot_id;
  facts.cpus = static_cast<int64_t>(body.cpus);
  facts.memory_bytes = static_cast<int64_t>(body.memory_bytes);
  facts.disk_total_bytes = static_cast<int64_t>(body.disk_total_bytes);
  facts.disk_free_bytes = static_cast<int64_t>(body.disk_free_bytes);
  for (const api::GpuInfo& gpu : body.gpus) facts.gpus.push_back(GpuWish{static_cast<int64_t>(gpu.count), gpu.type});
  CAIRN_TRY(catalog::NodeRow node, nodes_.register_node(facts));
  schedule_now();
  api::RegisteredNode answer;
  answer.node = node.id;
  return answer;
}

Result<api::PollAnswer> WorkHandlers::poll_node(const Principal& who, NodeId node, const api::PollNode& body,
                                                const Deadline& deadline) {
  CAIRN_CHECK_OK(who.require(Scope::kNode));
  Deadline until = deadline.child(seconds(static_cast<int64_t>(std::min(body.wait_seconds, kWaitSecondsMax))));
  uint64_t seen = signal_.now();
  auto disk_free = static_cast<int64_t>(std::min<uint64_t>(body.disk_free_bytes, INT64_MAX));
  CAIRN_TRY(run::PollResult result, nodes_.poll(node, body.attempts, disk_free));
  // Whether a stop concerns an executor, its own heartbeat tells sooner: a poll that held only stops waits on, or it would
  // come back at once until the run has drained.
  bool told_stops = !result.stop.empty();
  while (result.start.empty() && result.forget.empty() && !told_stops && !until.expired()) {
    seen = signal_.wait(seen, std::min<Duration>(kLookEvery, until.remaining()));
    CAIRN_TRY(bool work, nodes_.has_work(node, body.attempts));
    if (!work) continue;
    CAIRN_TRY(result, nodes_.poll(node, body.attempts, disk_free));
    told_stops = !result.stop.empty();
  }
  if (told_stops && result.start.empty()) signal_.wait(signal_.now(), std::min<Duration>(kLookEvery, until.remaining()));
  api::PollAnswer answer;
  for (run::Offer& offer : result.start) answer.start.push_back(api::Assignment{offer.run, offer.attempt, std::move(offer.secret)});
  for (const run::StopOrder& stop : result.stop) {
    answer.stop.push_back(api::StopAttempt{stop.attempt, unsigned_of(stop.grace_seconds)});
  }
  answer.forget = std::move(result.forget);
  return answer;
}

Result<api::AttemptStart> WorkHandlers::start_attempt(const Principal& who, AttemptId id, const api::StartAttempt& body) {
  CAIRN_CHECK_OK(who.require(Scope::kNode));
  CAIRN_TRY(run::StartedAttempt started, attempts_.start(id, body.secret));
  const catalog::RunRow& row = started.view.run;
  api::AttemptStart answer;
  answer.run = row.id;
  answer.attempt = id;
  answer.number = unsigned_of(started.attempt.number);
  answer.kind = row.kind == "train" ? api::RunKind::kTrain : api::RunKind::kCommand;
  answer.command = std::move(started.command);
  answer.config = row.config;
  answer.config_name = row.config_name;
  answer.output_directory = run::output_directory(row.id);
  answer.environment = row.environment;
  answer.gpu = row.gpu;
  answer.sync_final_only = row.sync_final_only;
  answer.grace_seconds = unsigned_of(row.grace_seconds);
  Time pin_expires = context_.storage.clock.now() + context_.storage.settings.pin_time;
  for (const run::GrantedMount& granted : started.mounts) {
    api::MountGrant grant = to_wire(granted, pin_expires);
    if (granted.mount.workspace) {
      answer.workspace = std::move(grant);
    } else {
      answer.mounts.push_back(std::move(grant));
    }
  }
  return answer;
}

Result<api::AttemptHeartbeatAnswer> WorkHandlers::heartbeat_attempt(const Principal& who, AttemptId id,
                                                                    const api::HeartbeatAttempt& body) {
  CAIRN_CHECK_OK(who.require(Scope::kNode));
  std::optional<run::RunState> state = domain_state(body.state);
  if (!state) return Error(Code::kRequestInvalid, "unknown state in a heartbeat");
  run::AttemptSign sign;
  sign.state = *state;
  sign.progress.message = body.message;
  sign.progress.pending_files = static_cast<int64_t>(body.pending.files);
  sign.progress.pending_bytes = static_cast<int64_t>(body.pending.bytes);
  sign.progress.safe_to_stop = body.safe_to_stop;
  if (body.saved) {
    sign.progress.saved_step = signed_of(body.saved->step);
    sign.progress.saved_snapshot = static_cast<int64_t>(body.saved->snapshot);
    sign.progress.saved_at = body.saved->at;
  }
  sign.after_reboot = body.after_reboot;
  sign.log_sequence = static_cast<int64_t>(body.log_sequence);
  for (const api::LogRecord& record : body.logs) {
    catalog::LogRow line;
    line.component = record.component;
    line.at = record.at;
    line.line = record.text;
    sign.lines.push_back(std::move(line));
  }
  CAIRN_TRY(run::AttemptAnswer answered, attempts_.heartbeat(id, body.secret, sign));
  if (!body.logs.empty()) signal_.notify();
  api::AttemptHeartbeatAnswer answer;
  answer.stop = answered.stop;
  answer.grace_seconds = unsigned_of(answered.grace_seconds);
  answer.log_sequence = unsigned_of(answered.log_sequence);
  return answer;
}

Status WorkHandlers::finish_attempt(const Principal& who, AttemptId id, const api::FinishAttempt& body) {
  CAIRN_CHECK_OK(who.require(Scope::kNode));
  std::optional<run::RunState> outcome = domain_state(body.state);
  if (!outcome) return Error(Code::kRequestInvalid, "unknown state of an end");
  run::AttemptEnd end;
  end.outcome = *outcome;
  end.exit_code = body.exit_code;
  end.reason = body.reason;
  end.lost_paths = body.lost_paths;
  end.lost_bytes = static_cast<int64_t>(body.lost_bytes);
  if (body.saved) {
    end.saved_step = signed_of(body.saved->step);
    if (body.saved->snapshot > 0) end.saved_snapshot = static_cast<int64_t>(body.saved->snapshot);
  }
  CAIRN_TRY([[maybe_unused]] run::RunView view, attempts_.finish(id, body.secret, end));
  // What it held is free for who waits.
  schedule_now();
  return ok();
}

void WorkHandlers::schedule_now() {
  auto placed = scheduler_.run_once();
  if (!placed) log_warning("placing runs: {}", placed.error().to_string());
  signal_.notify();
}

void WorkHandlers::tick() {
  auto lost_nodes = nodes_.expire();
  if (!lost_nodes) log_warning("looking for silent nodes: {}", lost_nodes.error().to_string());
  auto lost_attempts = attempts_.expire();
  if (!lost_attempts) log_warning("looking for silent attempts: {}", lost_attempts.error().to_string());
  schedule_now();
  auto removed = context_.storage.db.transact([&](catalog::Tx& tx) -> Result<int64_t> {
    CAIRN_TRY(Time now, context_.storage.catalog_clock.removal_now(tx));
    return catalog::remove_old_logs(tx, now - context_.settings.logs_kept, kOldLogsPerTick);
  });
  if (!removed) log_warning("removing old logs: {}", removed.error().to_string());
}

}  // namespace cairn::server
