#include "server/app.h"

#include "base/log.h"
#include "codec/digest.h"
#include "identity/token_text.h"
#include "server/reply.h"

namespace cairn::server {
namespace {

enum class Access { kAnyone, kRead, kFull, kNode, kReadOrNode, kFullOrNode };

// Who may use a route. Uploads and pins are held by secrets and ids that only their holder knows, a run's node among them.
Access access_of(api::Route route) {
  using api::Route;
  switch (route) {
    case Route::kHealth:
    case Route::kVersion:
      return Access::kAnyone;
    case Route::kWhoAmI:
      return Access::kReadOrNode;
    case Route::kListUsers:
    case Route::kListTokens:
    case Route::kListVolumes:
    case Route::kGetVolume:
    case Route::kDeletePreview:
    case Route::kListSnapshots:
    case Route::kCreatePin:
    case Route::kListEntries:
    case Route::kUsage:
    case Route::kStat:
    case Route::kListRuns:
    case Route::kGetRun:
    case Route::kRunLogs:
    case Route::kRunCheckpoints:
    case Route::kListNodes:
      return Access::kRead;
    case Route::kDeletePin:
    case Route::kListing:
    case Route::kRequestUrls:
      return Access::kReadOrNode;
    case Route::kHeartbeatUpload:
    case Route::kRequestPacks:
    case Route::kResumablePacks:
    case Route::kPublish:
    case Route::kCloseUpload:
      return Access::kFullOrNode;
    case Route::kRegisterNode:
    case Route::kPollNode:
    case Route::kStartAttempt:
    case Route::kHeartbeatAttempt:
    case Route::kFinishAttempt:
      return Access::kNode;
    case Route::kCreateUser:
    case Route::kCreateToken:
    case Route::kRevokeToken:
    case Route::kCreateVolume:
    case Route::kExpandVolume:
    case Route::kDeleteVolume:
    case Route::kUndeleteVolume:
    case Route::kCreateWorkspace:
    case Route::kTagSnapshot:
    case Route::kDropSideSnapshot:
    case Route::kSetHistory:
    case Route::kBreakLease:
    case Route::kRemovePaths:
    case Route::kOpenUpload:
    case Route::kCreateRun:
    case Route::kStopRun:
      return Access::kFull;
  }
  return Access::kFull;
}

// Answers that are not kept: those that hold a token or signed URLs, and those of calls that are the same when made twice.
bool keeps_answer(api::Route route) {
  using api::Route;
  switch (route) {
    case Route::kCreateToken:
    case Route::kRequestPacks:
    case Route::kCloseUpload:
    case Route::kDeletePin:
    case Route::kRegisterNode:
    case Route::kStartAttempt:
    case Route::kFinishAttempt:
      return false;
    default:
      return api::route_spec(route).mutation;
  }
}

bool waits_long(api::Route route) { return route == api::Route::kPollNode || route == api::Route::kRunLogs; }

Result<std::optional<RequestId>> request_id(const http::Request& request) {
  auto text = request.headers.get(api::kRequestIdHeader);
  if (!text) return std::optional<RequestId>();
  auto id = RequestId::from_hex(*text);
  if (!id || id->is_none()) {
    return Error(Code::kRequestInvalid, "header Cairn-Request-Id is not an id of 32 hex digits");
  }
  return id;
}

}  // namespace

App::App(Services& services) : s_(services), handlers_(services), objects_(services.objects, services.urls) {}

http::RoutePlan App::route(const http::RequestHead& head) {
  if (ObjectRoutes::covers(head)) return objects_.plan(head);
  if (head.raw_path == "/metrics" && head.method == "GET") {
    return http::RoutePlan::buffered("/metrics", [this](const http::Request& request) { return metrics(request); }, 0);
  }
  auto match = api::match_route(head.method, head.raw_path);
  if (!match) return http::RoutePlan::answer("unknown", refusal(match.error()));
  const api::RouteSpec& spec = api::route_spec(match->route);
  std::string name = std::string(spec.method) + " " + std::string(spec.pattern);
  http::RoutePlan::Call call = [this, match = *std::move(match)](const http::Request& request) {
    return answer(match, request);
  };
  if (waits_long(spec.route)) {
    http::RoutePlan plan = http::RoutePlan::long_poll(std::move(name), std::move(call));
    return plan;
  }
  // Publishing may have millions of entries to merge; the client attaches again meanwhile. Heartbeats must not wait for it.
  if (spec.route == api::Route::kPublish || spec.route == api::Route::kRemovePaths) {
    return http::RoutePlan::heavy(std::move(name), std::move(call), minutes(30), api::kRequestBytesMax);
  }
  return http::RoutePlan::buffered(std::move(name), std::move(call), api::kRequestBytesMax);
}

Result<identity::Principal> App::authenticate(const http::Request& request) {
  std::string_view token;
  if (auto header = request.headers.get("authorization")) {
    auto bearer = identity::bearer_token(*header);
    if (!bearer) return Error(Code::kTokenInvalid, "the Authorization header holds no bearer token");
    token = *bearer;
  }
  return s_.identity.authenticate(token, request.deadline);
}

Status App::authorize(const identity::Principal& who, api::Route route) const {
  using identity::Scope;
  switch (access_of(route)) {
    case Access::kAnyone: return ok();
    case Access::kRead: return who.require(Scope::kRead);
    case Access::kFull: return who.require(Scope::kFull);
    case Access::kNode: return who.require(Scope::kNode);
    case Access::kReadOrNode: return who.scopes.has(Scope::kNode) ? ok() : who.require(Scope::kRead);
    case Access::kFullOrNode: return who.scopes.has(Scope::kNode) ? ok() : who.require(Scope::kFull);
  }
  return Error(Code::kNotAllowed, "not allowed");
}

http::Response App::answer(api::RouteMatch match, const http::Request& request) {
  auto result = [&]() -> Result<http::Response> {
    auto team = request.headers.get(api::kTeamHeader);
    if (team && !team->empty()) {
      return Error(Code::kUsage, "this server has no teams", "unset CAIRN_TEAM and the team in the configuration");
    }
    CAIRN_TRY(api::Query query, api::Query::parse(request.raw_query));
    Call call{request, match.route, std::move(match.parameters), std::move(query), {}, {}, {}, false};
    if (access_of(match.route) != Access::kAnyone) {
      CAIRN_TRY(call.who, authenticate(request));
      CAIRN_CHECK_OK(authorize(call.who, match.route));
    }
    if (!api::route_spec(match.route).mutation) return handlers_.handle(call);
    CAIRN_TRY(auto id, request_id(request));
    call.request = id.value_or(RequestId::random(s_.random));
    if (id && keeps_answer(match.route)) {
      codec::Digest body = codec::sha256(codec::as_bytes(request.body));
      call.stored_key = catalog::RequestKey{call.who.user, *id, request.method + " " + request.target, body.hex()};
    }
    return perform(call);
  }();
  if (!result) {
    Code code = result.error().code();
    if (code == Code::kInternal || code == Code::kDataCorrupt || code == Code::kIoError) {
      log_error("{} {}: {}", request.method, request.raw_path, result.error().to_string());
    }
    return refusal(result.error());
  }
  return *std::move(result);
}

Result<http::Response> App::perform(Call& call) {
  CAIRN_TRY(auto earlier, stored_answer(call));
  if (earlier) return *std::move(earlier);
  auto result = handlers_.handle(call);
  if (!result && call.stored_key) {
    // The same request may have been under way twice at once: then the other was first, and this one met what it had made.
    auto other = stored_answer(call);
    if (other && *other) return **std::move(other);
  }
  if (result && call.stored_key && !call.stored) store_answer(call, *result);
  return result;
}

Result<std::optional<http::Response>> App::stored_answer(const Call& call) {
  if (!call.stored_key) return std::optional<http::Response>();
  CAIRN_TRY(auto stored, s_.db.read([&](catalog::Tx& tx) { return catalog::find_request(tx, *call.stored_key); },
                                    call.http.deadline));
  if (!stored) return std::optional<http::Response>();
  return std::optional(http::Response::json(static_cast<int>(stored->status), stored->response));
}

// For a domain call that could not store it in its own transaction. When this fails the change was still made: repeating such a
// request meets the state it made.
void App::store_answer(Call& call, const http::Response& response) {
  Status stored = s_.db.transact(
      [&](catalog::Tx& tx) -> Status {
        CAIRN_TRY(Time at, s_.catalog_clock.now(tx));
        return catalog::store_request(tx, *call.stored_key, {response.status, response.body}, at);
      },
      call.http.deadline);
  if (!stored && stored.error().code() != Code::kRequestIdReused) {
    log_warning("the answer of a request was not stored: {}", stored.error().to_string());
  }
}

http::Response App::metrics(const http::Request& request) {
  auto who = authenticate(request);
  if (!who) return refusal(who.error());
  Status allowed = who->require(identity::Scope::kRead);
  if (!allowed) return refusal(allowed.error());
  http::ServerCounters counters = counters_ ? counters_() : http::ServerCounters();
  std::string text = "# TYPE cairn_http_requests_total counter\n";
  for (const auto& [status, count] : counters.requests_by_status) {
    text += fmt::format("cairn_http_requests_total{{status=\"{}\"}} {}\n", status, count);
  }
  auto counter = [&](const char* name, uint64_t value) { text += fmt::format("# TYPE {} counter\n{} {}\n", name, name, value); };
  auto gauge = [&](const char* name, uint64_t value) { text += fmt::format("# TYPE {} gauge\n{} {}\n", name, name, value); };
  counter("cairn_http_received_bytes_total", counters.bytes_received);
  counter("cairn_http_sent_bytes_total", counters.bytes_sent);
  counter("cairn_http_connections_accepted_total", counters.connections_accepted);
  counter("cairn_http_connections_refused_total", counters.connections_refused);
  counter("cairn_http_timeouts_total", counters.timeouts);
  counter("cairn_http_queue_refusals_total", counters.queue_refusals);
  counter("cairn_catalog_retries_total", s_.db.retries());
  gauge("cairn_http_connections", counters.connections_active);
  gauge("cairn_http_requests", counters.requests_active);
  gauge("cairn_http_body_memory_bytes", counters.body_memory_bytes);
  http::Response response = http::Response::text(200, std::move(text));
  response.headers.set("Content-Type", "text/plain; version=0.0.4");
  return response;
}

}  // namespace cairn::server
