// Runs, nodes and attempts: parameters and bodies here, what they do in work_handlers.cc.
#include <limits>

#include "server/api_handlers.h"
#include "server/reply.h"

namespace cairn::server {
namespace {

const auto kAsIs = [](const api::Run& run) { return run; };

template <class T>
Result<http::Response> answer_with(const Result<T>& value) {
  if (!value) return value.error();
  return json_response(*value);
}

}  // namespace

Result<http::Response> ApiHandlers::create_run(Call& call) {
  CAIRN_TRY(api::CreateRun body, call.body<api::CreateRun>());
  auto also = recording<api::Run>(call, "run.create", "run", std::string(body.kind == api::RunKind::kTrain ? "train" : "command"), kAsIs);
  return answer_with(s_.work.create_run(call.who, body, also));
}

Result<http::Response> ApiHandlers::list_runs(Call& call) {
  api::RunsQuery query;
  CAIRN_TRY(query.before, call.query.id<RunId>("before"));
  CAIRN_TRY(query.limit, call.query.number("limit", query.limit, 1'000));
  CAIRN_CHECK_OK(call.no_more_parameters());
  return answer_with(s_.work.list_runs(call.who, query));
}

Result<http::Response> ApiHandlers::get_run(Call& call) {
  CAIRN_CHECK_OK(call.no_more_parameters());
  CAIRN_TRY(RunId id, call.id<RunId>());
  return answer_with(s_.work.get_run(call.who, id));
}

Result<http::Response> ApiHandlers::run_logs(Call& call) {
  api::LogsQuery query;
  CAIRN_TRY(RunId id, call.id<RunId>());
  CAIRN_TRY(query.after, call.query.number("after", 0, std::numeric_limits<int64_t>::max()));
  CAIRN_TRY(query.limit, call.query.number("limit", query.limit, api::kLogLinesPerPageMax));
  CAIRN_TRY(query.wait_seconds, call.query.number("wait_seconds", 0, 30));
  query.component = call.query.text("component");
  CAIRN_CHECK_OK(call.no_more_parameters());
  return answer_with(s_.work.run_logs(call.who, id, query, call.http.deadline));
}

Result<http::Response> ApiHandlers::run_checkpoints(Call& call) {
  CAIRN_CHECK_OK(call.no_more_parameters());
  CAIRN_TRY(RunId id, call.id<RunId>());
  return answer_with(s_.work.run_checkpoints(call.who, id));
}

Result<http::Response> ApiHandlers::stop_run(Call& call) {
  CAIRN_TRY(api::StopRun body, call.body<api::StopRun>());
  CAIRN_TRY(RunId id, call.id<RunId>());
  auto also = recording<api::Run>(call, "run.stop", "run", id.hex(), kAsIs);
  return answer_with(s_.work.stop_run(call.who, id, body, also));
}

Result<http::Response> ApiHandlers::list_nodes(Call& call) {
  CAIRN_CHECK_OK(call.no_more_parameters());
  return answer_with(s_.work.list_nodes(call.who));
}

Result<http::Response> ApiHandlers::register_node(Call& call) {
  CAIRN_TRY(api::RegisterNode body, call.body<api::RegisterNode>());
  auto registered = s_.work.register_node(call.who, body);
  if (registered) CAIRN_CHECK_OK(note(call, "node.register", "node", body.name));
  return answer_with(registered);
}

Result<http::Response> ApiHandlers::poll_node(Call& call) {
  CAIRN_TRY(api::PollNode body, call.body<api::PollNode>());
  CAIRN_TRY(NodeId id, call.id<NodeId>());
  return answer_with(s_.work.poll_node(call.who, id, body, call.http.deadline));
}

Result<http::Response> ApiHandlers::start_attempt(Call& call) {
  CAIRN_TRY(api::StartAttempt body, call.body<api::StartAttempt>());
  CAIRN_TRY(AttemptId id, call.id<AttemptId>());
  return answer_with(s_.work.start_attempt(call.who, id, body));
}

Result<http::Response> ApiHandlers::heartbeat_attempt(Call& call) {
  CAIRN_TRY(api::HeartbeatAttempt body, call.body<api::HeartbeatAttempt>());
  CAIRN_TRY(AttemptId id, call.id<AttemptId>());
  return answer_with(s_.work.heartbeat_attempt(call.who, id, body));
}

Result<http::Response> ApiHandlers::finish_attempt(Call& call) {
  CAIRN_TRY(api::FinishAttempt body, call.body<api::FinishAttempt>());
  CAIRN_TRY(AttemptId id, call.id<AttemptId>());
  CAIRN_CHECK_OK(s_.work.finish_attempt(call.who, id, body));
  return http::Response::json(200, "{}");
}

}  // namespace cairn::server
