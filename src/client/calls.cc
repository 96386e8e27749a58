// One method per route: encode, perform, decode.
#include <algorithm>

#include "api/json.h"
#include "client/call.h"
#include "codec/hex.h"

namespace cairn::client {

using api::QueryBuilder;
using api::Route;
using api::route_path;

template <class Answer>
Result<Answer> ApiClient::ask(const Call& call, const Deadline& deadline) {
  CAIRN_TRY(Reply reply, perform(call, deadline));
  auto answer = api::answer_from_json<Answer>(reply.body);
  if (!answer) {
    return Error(Code::kServerUnavailable, "the answer of " + reply.url + " is not understood: " + answer.error().message(),
                 "compare the versions of client and server: cairn version");
  }
  return answer;
}

Status ApiClient::tell(const Call& call, const Deadline& deadline) {
  auto reply = perform(call, deadline);
  if (!reply) return std::move(reply).error();
  return ok();
}

// The server and people.

Result<api::ServerVersion> ApiClient::version(const Deadline& deadline) {
  Call call{Route::kVersion, route_path(Route::kVersion), {}, {}, {}, {}};
  return ask<api::ServerVersion>(call, deadline);
}

Result<api::WhoAmI> ApiClient::whoami(const Deadline& deadline) {
  Call call{Route::kWhoAmI, route_path(Route::kWhoAmI), {}, {}, {}, {}};
  return ask<api::WhoAmI>(call, deadline);
}

Result<api::User> ApiClient::create_user(const api::CreateUser& body, const Deadline& deadline) {
  Call call{Route::kCreateUser, route_path(Route::kCreateUser), {}, to_json(body), {}, {}};
  return ask<api::User>(call, deadline);
}

Result<api::UserList> ApiClient::list_users(const Deadline& deadline) {
  Call call{Route::kListUsers, route_path(Route::kListUsers), {}, {}, {}, {}};
  return ask<api::UserList>(call, deadline);
}

Result<api::CreatedToken> ApiClient::create_token(const api::CreateToken& body, const Deadline& deadline) {
  Call call{Route::kCreateToken, route_path(Route::kCreateToken), {}, to_json(body), {}, {}};
  return ask<api::CreatedToken>(call, deadline);
}

Result<api::TokenList> ApiClient::list_tokens(const Deadline& deadline) {
  Call call{Route::kListTokens, route_path(Route::kListTokens), {}, {}, {}, {}};
  return ask<api::TokenList>(call, deadline);
}

Status ApiClient::revoke_token(TokenId token, const Deadline& deadline) {
  Call call{Route::kRevokeToken, route_path(Route::kRevokeToken, {token.hex()}), {}, {}, {}, {}};
  return tell(call, deadline);
}

// Volumes.

Result<api::Volume> ApiClient::create_volume(const api::CreateVolume& body, const Deadline& deadline) {
  Call call{Route::kCreateVolume, route_path(Route::kCreateVolume), {}, to_json(body), {}, {}};
  return ask<api::Volume>(call, deadline);
}

Result<api::VolumeList> ApiClient::list_volumes(const Deadline& deadline) {
  Call call{Route::kListVolumes, route_path(Route::kListVolumes), {}, {}, {}, {}};
  return ask<api::VolumeList>(call, deadline);
}

Result<api::Volume> ApiClient::get_volume(std::string_view volume, const Deadline& deadline) {
  Call call{Route::kGetVolume, route_path(Route::kGetVolume, {volume}), {}, {}, {}, {}};
  return ask<api::Volume>(call, deadline);
}

Result<api::Volume> ApiClient::expand_volume(std::string_view volume, const api::ExpandVolume& body,
                                             const Deadline& deadline) {
  Call call{Route::kExpandVolume, route_path(Route::kExpandVolume, {volume}), {}, to_json(body), {}, {}};
  return ask<api::Volume>(call, deadline);
}

Result<api::DeletePreview> ApiClient::delete_preview(std::string_view volume, const Deadline& deadline) {
  Call call{Route::kDeletePreview, route_path(Route::kDeletePreview, {volume}), {}, {}, {}, {}};
  return ask<api::DeletePreview>(call, deadline);
}

Status ApiClient::delete_volume(std::string_view volume, bool purge, const Deadline& deadline) {
  QueryBuilder query;
  if (purge) query.add("purge", "true");
  Call call{Route::kDeleteVolume, route_path(Route::kDeleteVolume, {volume}), query.str(), {}, {}, {}};
  return tell(call, deadline);
}

Result<api::Volume> ApiClient::undelete_volume(std::string_view volume, const api::UndeleteVolume& body,
                                               const Deadline& deadline) {
  Call call{Route::kUndeleteVolume, route_path(Route::kUndeleteVolume, {volume}), {}, to_json(body), {}, {}};
  return ask<api::Volume>(call, deadline);
}

Result<api::Volume> ApiClient::create_workspace(const api::CreateWorkspace& body, const Deadline& deadline) {
  Call call{Route::kCreateWorkspace, route_path(Route::kCreateWorkspace), {}, to_json(body), {}, {}};
  return ask<api::Volume>(call, deadline);
}

Result<api::SnapshotList> ApiClient::list_snapshots(std::string_view volume, const api::SnapshotsQuery& query,
                                                    const Deadline& deadline) {
  QueryBuilder parameters;
  parameters.add("before", query.before).add("limit", query.limit);
  if (query.all) parameters.add("all", "true");
  Call call{Route::kListSnapshots, route_path(Route::kListSnapshots, {volume}), parameters.str(), {}, {}, {}};
  return ask<api::SnapshotList>(call, deadline);
}

Status ApiClient::tag_snapshot(std::string_view volume, uint64_t number, const api::TagSnapshot& body,
                               const Deadline& deadline) {
  Call call{Route::kTagSnapshot, route_path(Route::kTagSnapshot, {volume, std::to_string(number)}), {}, to_json(body), {}, {}};
  return tell(call, deadline);
}

Status ApiClient::drop_side_snapshot(std::string_view volume, uint64_t number, const Deadline& deadline) {
  Call call{Route::kDropSideSnapshot, route_path(Route::kDropSideSnapshot, {volume, std::to_string(number)}), {}, {}, {}, {}};
  return tell(call, deadline);
}

Result<api::Volume> ApiClient::set_history(std::string_view volume, const api::SetHistory& body, const Deadline& deadline) {
  Call call{Route::kSetHistory, route_path(Route::kSetHistory, {volume}), {}, to_json(body), {}, {}};
  return ask<api::Volume>(call, deadline);
}

Status ApiClient::break_lease(std::string_view volume, const Deadline& deadline) {
  Call call{Route::kBreakLease, route_path(Route::kBreakLease, {volume}), {}, {}, {}, {}};
  return tell(call, deadline);
}

// Reading.

Result<api::Pin> ApiClient::create_pin(std::string_view volume, const api::CreatePin& body, const Deadline& deadline) {
  Call call{Route::kCreatePin, route_path(Route::kCreatePin, {volume}), {}, to_json(body), {}, {}};
  return ask<api::Pin>(call, deadline);
}

Status ApiClient::delete_pin(PinId pin, const Deadline& deadline) {
  Call call{Route::kDeletePin, route_path(Route::kDeletePin, {pin.hex()}), {}, {}, {}, {}};
  return tell(call, deadline);
}

Result<api::ListingPage> ApiClient::listing(std::string_view volume, const api::ListingQuery& query,
                                            const Deadline& deadline) {
  QueryBuilder parameters;
  parameters.add("pin", query.pin.hex()).add_hex("path", query.path).add("max_bytes", query.max_bytes);
  if (query.after) parameters.add_hex("after", query.after->path).add("chunk_after", query.after->chunks);
  Call call{Route::kListing, route_path(Route::kListing, {volume}), parameters.str(), {}, {}, {}};
  CAIRN_TRY(Reply reply, perform(call, deadline));
  api::ListingPage page;
  page.changeset.assign(reply.body.begin(), reply.body.end());
  if (reply.next) {
    auto cursor = api::listing_cursor_from_text(*reply.next);
    if (!cursor) return Error(Code::kServerUnavailable, "the listing of " + reply.url + " has a cursor that is none");
    page.next = *std::move(cursor);
  }
  return page;
}

Result<api::EntryPage> ApiClient::list_entries(std::string_view volume, const api::EntriesQuery& query,
                                               const Deadline& deadline) {
  QueryBuilder parameters;
  parameters.add_hex("path", query.path).add("limit", query.limit);
  if (!query.pin.is_none()) parameters.add("pin", query.pin.hex());
  if (query.snapshot != 0) parameters.add("snapshot", query.snapshot);
  if (!query.after.empty()) parameters.add_hex("after", query.after);
  Call call{Route::kListEntries, route_path(Route::kListEntries, {volume}), parameters.str(), {}, {}, {}};
  return ask<api::EntryPage>(call, deadline);
}

namespace {

std::string path_query(const api::PathQuery& query) {
  QueryBuilder parameters;
  parameters.add_hex("path", query.path);
  if (!query.pin.is_none()) parameters.add("pin", query.pin.hex());
  if (query.snapshot != 0) parameters.add("snapshot", query.snapshot);
  return parameters.str();
}

}  // namespace

Result<api::Usage> ApiClient::usage(std::string_view volume, const api::PathQuery& query, const Deadline& deadline) {
  Call call{Route::kUsage, route_path(Route::kUsage, {volume}), path_query(query), {}, {}, {}};
  return ask<api::Usage>(call, deadline);
}

Result<api::Entry> ApiClient::stat(std::string_view volume, const api::PathQuery& query, const Deadline& deadline) {
  Call call{Route::kStat, route_path(Route::kStat, {volume}), path_query(query), {}, {}, {}};
  return ask<api::Entry>(call, deadline);
}

Result<api::UrlGrant> ApiClient::request_urls(std::string_view volume, const api::RequestUrls& body,
                                              const Deadline& deadline) {
  Call call{Route::kRequestUrls, route_path(Route::kRequestUrls, {volume}), {}, to_json(body), {}, {}};
  return ask<api::UrlGrant>(call, deadline);
}

Result<api::Published> ApiClient::remove_paths(std::string_view volume, const api::RemovePaths& body,
                                               const Deadline& deadline) {
  Call call{Route::kRemovePaths, route_path(Route::kRemovePaths, {volume}), {}, to_json(body), {}, {}};
  return ask<api::Published>(call, deadline);
}

// Writing.

Result<api::Upload> ApiClient::open_upload(std::string_view volume, api::OpenUpload body, const Deadline& deadline) {
  {
    std::lock_guard lock(random_mutex_);
    body.secret = codec::random_secret(random_);
  }
  Call call{Route::kOpenUpload, route_path(Route::kOpenUpload, {volume}), {}, to_json(body), {}, {}};
  CAIRN_TRY(api::Upload upload, ask<api::Upload>(call, deadline));
  upload.secret = std::move(body.secret);
  return upload;
}

Result<api::HeartbeatAnswer> ApiClient::heartbeat_upload(UploadId upload, const api::Heartbeat& body,
                                                         const Deadline& deadline) {
  Call call{Route::kHeartbeatUpload, route_path(Route::kHeartbeatUpload, {upload.hex()}), {}, to_json(body), {}, {}};
  return ask<api::HeartbeatAnswer>(call, deadline);
}

Result<api::PackGrant> ApiClient::request_packs(UploadId upload, const api::RequestPacks& body, const Deadline& deadline) {
  Call call{Route::kRequestPacks, route_path(Route::kRequestPacks, {upload.hex()}), {}, to_json(body), {}, {}};
  return ask<api::PackGrant>(call, deadline);
}

Result<api::ResumablePacks> ApiClient::resumable_packs(UploadId upload, const api::RequestResumable& body,
                                                       const Deadline& deadline) {
  Call call{Route::kResumablePacks, route_path(Route::kResumablePacks, {upload.hex()}), {}, to_json(body), {}, {}};
  return ask<api::ResumablePacks>(call, deadline);
}

Result<api::Published> ApiClient::publish(UploadId upload, const api::Publish& body, const Deadline& deadline,
                                          RequestId request) {
  Call call{Route::kPublish, route_path(Route::kPublish, {upload.hex()}), {}, to_json(body), request, {}};
  return ask<api::Published>(call, deadline);
}

Status ApiClient::close_upload(UploadId upload, const api::CloseUpload& body, const Deadline& deadline) {
  Call call{Route::kCloseUpload, route_path(Route::kCloseUpload, {upload.hex()}), {}, to_json(body), {}, {}};
  return tell(call, deadline);
}

// Runs.

Result<api::Run> ApiClient::create_run(const api::CreateRun& body, const Deadline& deadline) {
  Call call{Route::kCreateRun, route_path(Route::kCreateRun), {}, to_json(body), {}, {}};
  return ask<api::Run>(call, deadline);
}

Result<api::RunList> ApiClient::list_runs(const api::RunsQuery& query, const Deadline& deadline) {
  QueryBuilder parameters;
  parameters.add("limit", query.limit);
  if (!query.before.is_none()) parameters.add("before", query.before.hex());
  Call call{Route::kListRuns, route_path(Route::kListRuns), parameters.str(), {}, {}, {}};
  return ask<api::RunList>(call, deadline);
}

Result<api::Run> ApiClient::get_run(RunId run, const Deadline& deadline) {
  Call call{Route::kGetRun, route_path(Route::kGetRun, {run.hex()}), {}, {}, {}, {}};
  return ask<api::Run>(call, deadline);
}

Result<api::LogPage> ApiClient::run_logs(RunId run, const api::LogsQuery& query, const Deadline& deadline) {
  QueryBuilder parameters;
  parameters.add("after", query.after).add("limit", query.limit);
  if (!query.component.empty()) parameters.add("component", query.component);
  if (query.wait_seconds != 0) parameters.add("wait_seconds", query.wait_seconds);
  Duration longer = seconds(std::min<uint64_t>(query.wait_seconds, 60));
  Call call{Route::kRunLogs, route_path(Route::kRunLogs, {run.hex()}), parameters.str(), {}, {}, longer};
  return ask<api::LogPage>(call, deadline);
}

Result<api::CheckpointList> ApiClient::run_checkpoints(RunId run, const Deadline& deadline) {
  Call call{Route::kRunCheckpoints, route_path(Route::kRunCheckpoints, {run.hex()}), {}, {}, {}, {}};
  return ask<api::CheckpointList>(call, deadline);
}

Result<api::Run> ApiClient::stop_run(RunId run, const api::StopRun& body, const Deadline& deadline) {
  Call call{Route::kStopRun, route_path(Route::kStopRun, {run.hex()}), {}, to_json(body), {}, {}};
  return ask<api::Run>(call, deadline);
}

// Nodes and attempts.

Result<api::NodeList> ApiClient::list_nodes(const Deadline& deadline) {
  Call call{Route::kListNodes, route_path(Route::kListNodes), {}, {}, {}, {}};
  return ask<api::NodeList>(call, deadline);
}

Result<api::RegisteredNode> ApiClient::register_node(const api::RegisterNode& body, const Deadline& deadline) {
  Call call{Route::kRegisterNode, route_path(Route::kRegisterNode), {}, to_json(body), {}, {}};
  return ask<api::RegisteredNode>(call, deadline);
}

Result<api::PollAnswer> ApiClient::poll_node(NodeId node, const api::PollNode& body, const Deadline& deadline) {
  Duration longer = seconds(std::min<uint64_t>(body.wait_seconds, 60));
  Call call{Route::kPollNode, route_path(Route::kPollNode, {node.hex()}), {}, to_json(body), {}, longer};
  return ask<api::PollAnswer>(call, deadline);
}

Result<api::AttemptStart> ApiClient::start_attempt(AttemptId attempt, const api::StartAttempt& body,
                                                   const Deadline& deadline) {
  Call call{Route::kStartAttempt, route_path(Route::kStartAttempt, {attempt.hex()}), {}, to_json(body), {}, {}};
  return ask<api::AttemptStart>(call, deadline);
}

Result<api::AttemptHeartbeatAnswer> ApiClient::heartbeat_attempt(AttemptId attempt, const api::HeartbeatAttempt& body,
                                                                 const Deadline& deadline) {
  Call call{Route::kHeartbeatAttempt, route_path(Route::kHeartbeatAttempt, {attempt.hex()}), {}, to_json(body), {}, {}};
  return ask<api::AttemptHeartbeatAnswer>(call, deadline);
}

Status ApiClient::finish_attempt(AttemptId attempt, const api::FinishAttempt& body, const Deadline& deadline) {
  Call call{Route::kFinishAttempt, route_path(Route::kFinishAttempt, {attempt.hex()}), {}, to_json(body), {}, {}};
  return tell(call, deadline);
}

}  // namespace cairn::client
