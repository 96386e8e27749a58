#include <algorithm>

#include <fmt/format.h>

#include "server/api_handlers.h"
#include "server/convert.h"
#include "server/reply.h"
#include "server/seen.h"

namespace cairn::server {
namespace {

constexpr uint64_t kWaitSecondsMax = 30;

// What the training config itself says: its engine, and a volume when the command line named none.
Status read_config(const api::CreateRun& body, run::NewRun& request) {
  std::string file = body.config_name.empty() ? "config" : body.config_name;
  CAIRN_TRY(config::TrainingHead head, config::read_training_head(body.config, file));
  request.engine = head.engine;
  if (head.volume.empty()) return ok();
  auto primary = std::find_if(request.mounts.begin(), request.mounts.end(), [](const auto& mount) { return mount.primary; });
  if (primary == request.mounts.end()) {
    run::NewMount mount;
    mount.volume = head.volume;
    mount.primary = true;
    mount.create = true;
    request.mounts.insert(request.mounts.begin(), std::move(mount));
  } else if (primary->volume != head.volume) {
    return Error(Code::kConfigInvalid,
                 fmt::format("{} names the volume '{}', and --volume '{}'", file, head.volume, primary->volume),
                 "leave one of them out");
  }
  return ok();
}

run::NewMount new_mount(const api::MountRequest& mount) {
  run::NewMount to;
  to.volume = mount.volume;
  to.directory = mount.directory;
  to.primary = mount.primary;
  to.read_only = mount.read_only;
  to.shared = mount.shared;
  to.create = mount.create;
  if (mount.size_bytes) to.size_bytes = counted(*mount.size_bytes);
  if (mount.snapshot != 0) to.snapshot = counted(mount.snapshot);
  return to;
}

Result<run::RunState> run_state(api::RunState state) {
  auto known = run::run_state(api::state_name(state));
  if (!known) return Error(Code::kRequestInvalid, "field 'state' is no state that may be reported");
  return *known;
}

}  // namespace

Result<http::Response> ApiHandlers::create_run(Call& call) {
  CAIRN_TRY(api::CreateRun body, call.body<api::CreateRun>());
  run::NewRun request;
  request.kind = body.kind == api::RunKind::kTrain ? "train" : "command";
  request.command = body.command;
  request.environment = body.environment;
  request.config = body.config;
  request.config_name = body.config_name;
  for (const api::MountRequest& mount : body.mounts) request.mounts.push_back(new_mount(mount));
  request.workspace = body.workspace;
  request.gpu = body.gpu;
  request.node = body.node;
  request.queue = body.queue;
  request.sync_final_only = body.sync_final_only;
  if (body.grace_seconds) request.grace_seconds = counted(std::min<uint64_t>(*body.grace_seconds, 86'400));
  if (body.kind == api::RunKind::kTrain) CAIRN_CHECK_OK(read_config(body, request));
  CAIRN_TRY(Time at, now(call.http.deadline));
  auto also = recording<run::RunView>(call, "run.create", "run", request.kind,
                                      [at](const run::RunView& view) { return to_api(view, at); });
  CAIRN_TRY(run::RunView view, s_.runs.create(actor(call), request, also));
  place_runs();
  return json_response(to_api(view, at));
}

Result<http::Response> ApiHandlers::list_runs(Call& call) {
  CAIRN_TRY(RunId before, call.query.id<RunId>("before"));
  CAIRN_TRY(uint64_t limit, call.query.number("limit", 100, 1'000));
  CAIRN_CHECK_OK(call.no_more_parameters());
  CAIRN_TRY(auto views, s_.runs.list(call.who.user, before.is_none() ? std::nullopt : std::optional(before), counted(limit)));
  CAIRN_TRY(Time at, now(call.http.deadline));
  api::RunList list;
  for (const run::RunView& view : views) list.runs.push_back(to_api(view, at));
  return json_response(list);
}

Result<http::Response> ApiHandlers::get_run(Call& call) {
  CAIRN_CHECK_OK(call.no_more_parameters());
  CAIRN_TRY(RunId id, call.id<RunId>());
  CAIRN_TRY(run::RunView view, s_.runs.get(call.who.user, id));
  CAIRN_TRY(Time at, now(call.http.deadline));
  return json_response(to_api(view, at));
}

Result<http::Response> ApiHandlers::run_logs(Call& call) {
  CAIRN_TRY(RunId id, call.id<RunId>());
  CAIRN_TRY(uint64_t after, call.query.number("after", 0, INT64_MAX));
  CAIRN_TRY(uint64_t limit, call.query.number("limit", 1'000, api::kLogLinesPerPageMax));
  CAIRN_TRY(uint64_t wait_seconds, call.query.number("wait_seconds", 0, kWaitSecondsMax));
  std::string component = call.query.text("component");
  CAIRN_CHECK_OK(call.no_more_parameters());
  Deadline until = call.http.deadline.child(seconds(counted(wait_seconds)));
  for (;;) {
    uint64_t position = s_.wakeup.position();
    CAIRN_TRY(run::LogView view, s_.runs.logs(call.who.user, id, counted(after), component, counted(limit)));
    if (!view.lines.empty() || view.ended || until.expired()) {
      api::LogPage page;
      for (const catalog::LogRow& row : view.lines) page.lines.push_back({seen(row.seq), row.component, row.at, row.line});
      page.next = seen(view.next);
      page.ended = view.ended;
      return json_response(page);
    }
    s_.wakeup.wait_after(position, until);
  }
}

Result<http::Response> ApiHandlers::run_checkpoints(Call& call) {
  CAIRN_CHECK_OK(call.no_more_parameters());
  CAIRN_TRY(RunId id, call.id<RunId>());
  CAIRN_TRY(auto views, s_.runs.checkpoints(call.who.user, id));
  api::CheckpointList list;
  for (const run::CheckpointView& view : views) list.checkpoints.push_back(to_api(view));
  return json_response(list);
}

Result<http::Response> ApiHandlers::stop_run(Call& call) {
  CAIRN_TRY(api::StopRun body, call.body<api::StopRun>());
  CAIRN_TRY(RunId id, call.id<RunId>());
  std::optional<int64_t> grace;
  if (body.grace_seconds) grace = counted(std::min<uint64_t>(*body.grace_seconds, 86'400));
  CAIRN_TRY(Time at, now(call.http.deadline));
  auto also = recording<run::RunView>(call, "run.stop", "run", id.hex(),
                                      [at](const run::RunView& view) { return to_api(view, at); });
  CAIRN_TRY(run::RunView view, s_.runs.stop(call.who.user, id, grace, also));
  place_runs();
  return json_response(to_api(view, at));
}

Result<http::Response> ApiHandlers::list_nodes(Call& call) {
  CAIRN_CHECK_OK(call.no_more_parameters());
  CAIRN_TRY(auto views, s_.nodes.list());
  api::NodeList list;
  for (const run::NodeView& view : views) list.nodes.push_back(to_api(view));
  return json_response(list);
}

Result<http::Response> ApiHandlers::register_node(Call& call) {
  CAIRN_TRY(api::RegisterNode body, call.body<api::RegisterNode>());
  run::NodeFacts facts;
  facts.name = body.name;
  facts.version = body.version;
  facts.boot_id = body.boot_id;
  facts.cpus = counted(body.cpus);
  facts.memory_bytes = counted(body.memory_bytes);
  facts.disk_total_bytes = counted(body.disk_total_bytes);
  facts.disk_free_bytes = counted(body.disk_free_bytes);
  for (const api::GpuInfo& gpu : body.gpus) facts.gpus.push_back({counted(gpu.count), gpu.type});
  CAIRN_TRY(catalog::NodeRow node, s_.nodes.register_node(facts));
  CAIRN_CHECK_OK(note(call, "node.register", "node", node.name));
  place_runs();
  return json_response(api::RegisteredNode{node.id, 25});
}

Result<http::Response> ApiHandlers::poll_node(Call& call) {
  CAIRN_TRY(api::PollNode body, call.body<api::PollNode>());
  CAIRN_TRY(NodeId id, call.id<NodeId>());
  Deadline until = call.http.deadline.child(seconds(counted(std::min(body.wait_seconds, kWaitSecondsMax))));
  for (;;) {
    uint64_t position = s_.wakeup.position();
    CAIRN_TRY(run::PollResult result, s_.nodes.poll(id, body.attempts, counted(body.disk_free_bytes)));
    if (!result.empty() || until.expired()) {
      api::PollAnswer answer;
      for (run::Offer& offer : result.start) answer.start.push_back({offer.run, offer.attempt, std::move(offer.secret)});
      for (const run::StopOrder& stop : result.stop) answer.stop.push_back({stop.attempt, seen(stop.grace_seconds)});
      answer.forget = result.forget;
      return json_response(answer);
    }
    s_.wakeup.wait_after(position, until);
  }
}

Result<http::Response> ApiHandlers::start_attempt(Call& call) {
  CAIRN_TRY(api::StartAttempt body, call.body<api::StartAttempt>());
  CAIRN_TRY(AttemptId id, call.id<AttemptId>());
  CAIRN_TRY(run::StartedAttempt started, s_.attempts.start(id, body.secret));
  s_.wakeup.notify();
  return json_response(to_api(started));
}

Result<http::Response> ApiHandlers::heartbeat_attempt(Call& call) {
  CAIRN_TRY(api::HeartbeatAttempt body, call.body<api::HeartbeatAttempt>());
  CAIRN_TRY(AttemptId id, call.id<AttemptId>());
  run::AttemptSign sign;
  CAIRN_TRY(sign.state, run_state(body.state));
  sign.progress.message = body.message;
  sign.progress.pending_files = counted(body.pending.files);
  sign.progress.pending_bytes = counted(body.pending.bytes);
  sign.progress.safe_to_stop = body.safe_to_stop;
  if (body.saved) {
    if (body.saved->step) sign.progress.saved_step = counted(*body.saved->step);
    sign.progress.saved_snapshot = counted(body.saved->snapshot);
    sign.progress.saved_at = body.saved->at;
  }
  sign.log_sequence = counted(body.log_sequence);
  for (api::LogRecord& record : body.logs) {
    catalog::LogRow row;
    row.component = std::move(record.component);
    row.at = record.at;
    row.line = std::move(record.text);
    sign.lines.push_back(std::move(row));
  }
  CAIRN_TRY(run::AttemptAnswer result, s_.attempts.heartbeat(id, body.secret, sign));
  if (!body.logs.empty()) s_.wakeup.notify();
  api::AttemptHeartbeatAnswer answer;
  answer.stop = result.stop;
  answer.grace_seconds = seen(result.grace_seconds);
  answer.lease_lost = result.lease_lost;
  answer.log_sequence = seen(result.log_sequence);
  return json_response(answer);
}

Result<http::Response> ApiHandlers::finish_attempt(Call& call) {
  CAIRN_TRY(api::FinishAttempt body, call.body<api::FinishAttempt>());
  CAIRN_TRY(AttemptId id, call.id<AttemptId>());
  run::AttemptEnd end;
  CAIRN_TRY(end.outcome, run_state(body.state));
  end.exit_code = body.exit_code;
  end.reason = body.reason;
  end.lost_paths = body.lost_paths;
  end.lost_bytes = counted(body.lost_bytes);
  if (body.saved) {
    if (body.saved->step) end.saved_step = counted(*body.saved->step);
    end.saved_snapshot = counted(body.saved->snapshot);
  }
  CAIRN_TRY(run::RunView view, s_.attempts.finish(id, body.secret, end));
  CAIRN_CHECK_OK(note(call, "run.end", "run", view.run.id.hex()));
  place_runs();
  return http::Response::json(200, "{}");
}

}  // namespace cairn::server
