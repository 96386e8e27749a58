#include "server/api_handlers.h"

#include "catalog/requests.h"
#include "server/reply.h"

namespace cairn::server {

Result<Time> ApiHandlers::now(const Deadline& deadline) {
  return s_.db.read([&](catalog::Tx& tx) { return s_.catalog_clock.now(tx); }, deadline);
}

Status ApiHandlers::record(catalog::Tx& tx, Call& call, const std::string& answer, const char* action, const char* kind,
                           const std::string& name) {
  CAIRN_TRY(Time at, s_.catalog_clock.now(tx));
  CAIRN_CHECK_OK(identity::audit(tx, call.who, at, action, kind, name, "", call.http.peer));
  if (!call.stored_key) return ok();
  CAIRN_CHECK_OK(catalog::store_request(tx, *call.stored_key, {200, answer}, at));
  call.stored = true;
  return ok();
}

Status ApiHandlers::note(Call& call, const char* action, const char* kind, const std::string& name) {
  return s_.db.transact(
      [&](catalog::Tx& tx) -> Status {
        CAIRN_TRY(Time at, s_.catalog_clock.now(tx));
        return identity::audit(tx, call.who, at, action, kind, name, "", call.http.peer);
      },
      call.http.deadline);
}

Result<http::Response> ApiHandlers::handle(Call& call) {
  switch (call.route) {
    case api::Route::kHealth: return http::Response::json(200, R"({"status":"ok"})");
    case api::Route::kVersion: return version(call);
    case api::Route::kWhoAmI: return whoami(call);
    case api::Route::kCreateUser: return create_user(call);
    case api::Route::kListUsers: return list_users(call);
    case api::Route::kCreateToken: return create_token(call);
    case api::Route::kListTokens: return list_tokens(call);
    case api::Route::kRevokeToken: return revoke_token(call);
    case api::Route::kCreateVolume: return create_volume(call);
    case api::Route::kListVolumes: return list_volumes(call);
    case api::Route::kGetVolume: return get_volume(call);
    case api::Route::kExpandVolume: return expand_volume(call);
    case api::Route::kDeletePreview: return delete_preview(call);
    case api::Route::kDeleteVolume: return delete_volume(call);
    case api::Route::kUndeleteVolume: return undelete_volume(call);
    case api::Route::kCreateWorkspace: return create_workspace(call);
    case api::Route::kListSnapshots: return list_snapshots(call);
    case api::Route::kTagSnapshot: return tag_snapshot(call);
    case api::Route::kDropSideSnapshot: return drop_side_snapshot(call);
    case api::Route::kSetHistory: return set_history(call);
    case api::Route::kBreakLease: return break_lease(call);
    case api::Route::kCreatePin: return create_pin(call);
    case api::Route::kDeletePin: return delete_pin(call);
    case api::Route::kListing: return listing(call);
    case api::Route::kListEntries: return list_entries(call);
    case api::Route::kUsage: return usage(call);
    case api::Route::kStat: return stat(call);
    case api::Route::kRequestUrls: return request_urls(call);
    case api::Route::kRemovePaths: return remove_paths(call);
    case api::Route::kOpenUpload: return open_upload(call);
    case api::Route::kHeartbeatUpload: return heartbeat_upload(call);
    case api::Route::kRequestPacks: return request_packs(call);
    case api::Route::kResumablePacks: return resumable_packs(call);
    case api::Route::kPublish: return publish(call);
    case api::Route::kCloseUpload: return close_upload(call);
    case api::Route::kCreateRun: return create_run(call);
    case api::Route::kListRuns: return list_runs(call);
    case api::Route::kGetRun: return get_run(call);
    case api::Route::kRunLogs: return run_logs(call);
    case api::Route::kRunCheckpoints: return run_checkpoints(call);
    case api::Route::kStopRun: return stop_run(call);
    case api::Route::kListNodes: return list_nodes(call);
    case api::Route::kRegisterNode: return register_node(call);
    case api::Route::kPollNode: return poll_node(call);
    case api::Route::kStartAttempt: return start_attempt(call);
    case api::Route::kHeartbeatAttempt: return heartbeat_attempt(call);
    case api::Route::kFinishAttempt: return finish_attempt(call);
  }
  return Error(Code::kInternal, "a route without a handler");
}

}  // namespace cairn::server
