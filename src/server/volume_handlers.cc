#include <fmt/format.h>

#include "server/api_handlers.h"
#include "server/convert.h"
#include "server/reply.h"
#include "server/seen.h"

namespace cairn::server {
namespace {

// As many as one answer holds; a person with more volumes than that has other problems.
constexpr size_t kVolumesMax = 20'000;
constexpr int64_t kPage = 1'000;

Result<int64_t> snapshot_number(const std::string& text) {
  int64_t number = 0;
  for (char c : text) {
    if (c < '0' || c > '9' || text.size() > 18) return Error(Code::kRequestInvalid, "a snapshot is named by its number");
    number = number * 10 + (c - '0');
  }
  return number;
}

const auto kVolumeView = [](const volume::VolumeInfo& info) { return to_api(info); };

}  // namespace

Result<http::Response> ApiHandlers::create_volume(Call& call) {
  CAIRN_TRY(api::CreateVolume body, call.body<api::CreateVolume>());
  std::optional<int64_t> size;
  if (body.size_bytes) size = counted(*body.size_bytes);
  volume::HistoryPolicy history = s_.default_history;
  if (body.history) {
    CAIRN_TRY(history, volume::HistoryPolicy::parse(*body.history));
  }
  auto also = recording<volume::VolumeInfo>(call, "volume.create", "volume", body.name, kVolumeView);
  CAIRN_TRY(volume::VolumeInfo info, s_.volumes.create(actor(call), body.name, size, history, nullptr, also));
  return json_response(to_api(info));
}

Result<http::Response> ApiHandlers::list_volumes(Call& call) {
  CAIRN_CHECK_OK(call.no_more_parameters());
  api::VolumeList list;
  std::string after;
  while (list.volumes.size() < kVolumesMax) {
    CAIRN_TRY(auto page, s_.volumes.list(call.who.user, after, kPage));
    for (const volume::VolumeInfo& info : page) list.volumes.push_back(to_api(info));
    if (page.size() < static_cast<size_t>(kPage)) break;
    after = page.back().name;
  }
  return json_response(list);
}

Result<http::Response> ApiHandlers::get_volume(Call& call) {
  CAIRN_CHECK_OK(call.no_more_parameters());
  CAIRN_TRY(volume::VolumeInfo info, s_.volumes.info(call.who.user, call.name()));
  return json_response(to_api(info));
}

Result<http::Response> ApiHandlers::expand_volume(Call& call) {
  CAIRN_TRY(api::ExpandVolume body, call.body<api::ExpandVolume>());
  auto also = recording<volume::VolumeInfo>(call, "volume.expand", "volume", call.name(), kVolumeView);
  CAIRN_TRY(volume::VolumeInfo info, s_.volumes.expand(call.who.user, call.name(), counted(body.size_bytes), also));
  return json_response(to_api(info));
}

Result<http::Response> ApiHandlers::delete_preview(Call& call) {
  CAIRN_CHECK_OK(call.no_more_parameters());
  CAIRN_TRY(volume::DeletePreview preview, s_.volumes.delete_preview(call.who.user, call.name()));
  api::DeletePreview answer;
  answer.files = seen(preview.files);
  answer.bytes = seen(preview.bytes);
  answer.checkpoints = seen(preview.checkpoints);
  answer.checkpoint_paths = preview.checkpoint_paths;
  return json_response(answer);
}

Result<http::Response> ApiHandlers::delete_volume(Call& call) {
  CAIRN_TRY(bool purge, call.query.flag("purge"));
  CAIRN_CHECK_OK(call.no_more_parameters());
  auto also = recording<volume::VolumeInfo>(call, purge ? "volume.purge" : "volume.delete", "volume", call.name(), kVolumeView);
  CAIRN_TRY(volume::VolumeInfo info, s_.volumes.remove(call.who.user, call.name(), purge, also));
  return json_response(to_api(info));
}

Result<http::Response> ApiHandlers::undelete_volume(Call& call) {
  CAIRN_TRY(api::UndeleteVolume body, call.body<api::UndeleteVolume>());
  auto also = recording<volume::VolumeInfo>(call, "volume.undelete", "volume", call.name(), kVolumeView);
  CAIRN_TRY(volume::VolumeInfo info, s_.volumes.undelete(call.who.user, call.name(), body.as, also));
  return json_response(to_api(info));
}

Result<http::Response> ApiHandlers::create_workspace(Call& call) {
  CAIRN_TRY(api::CreateWorkspace body, call.body<api::CreateWorkspace>());
  auto also = recording<volume::VolumeInfo>(call, "workspace.create", "volume", "workspace", kVolumeView);
  CAIRN_TRY(volume::VolumeInfo info, s_.volumes.create_workspace(actor(call), counted(body.size_bytes), also));
  return json_response(to_api(info));
}

Result<http::Response> ApiHandlers::list_snapshots(Call& call) {
  CAIRN_TRY(uint64_t before, call.query.number("before", 0, INT64_MAX));
  CAIRN_TRY(uint64_t limit, call.query.number("limit", 100, 1'000));
  CAIRN_TRY(bool all, call.query.flag("all"));
  CAIRN_CHECK_OK(call.no_more_parameters());
  CAIRN_TRY(volume::VolumeInfo info, own_volume(call));
  CAIRN_TRY(auto snapshots, s_.volumes.snapshots(info.id, counted(before), counted(limit), all));
  api::SnapshotList list;
  for (const volume::SnapshotInfo& snapshot : snapshots) list.snapshots.push_back(to_api(snapshot));
  return json_response(list);
}

Result<http::Response> ApiHandlers::tag_snapshot(Call& call) {
  CAIRN_TRY(api::TagSnapshot body, call.body<api::TagSnapshot>());
  CAIRN_TRY(int64_t number, snapshot_number(call.parameters.at(1)));
  CAIRN_TRY(volume::VolumeInfo info, own_volume(call));
  CAIRN_CHECK_OK(s_.volumes.tag(info.id, number, body.label, recording_done<int64_t>(call, "snapshot.tag")));
  return done();
}

Result<http::Response> ApiHandlers::drop_side_snapshot(Call& call) {
  CAIRN_TRY(int64_t number, snapshot_number(call.parameters.at(1)));
  CAIRN_TRY(volume::VolumeInfo info, own_volume(call));
  CAIRN_CHECK_OK(s_.volumes.drop_side_snapshot(info.id, number, recording_done<int64_t>(call, "snapshot.drop")));
  return done();
}

Result<http::Response> ApiHandlers::set_history(Call& call) {
  CAIRN_TRY(api::SetHistory body, call.body<api::SetHistory>());
  CAIRN_TRY(volume::HistoryPolicy history, volume::HistoryPolicy::parse(body.history));
  auto also = recording<volume::VolumeInfo>(call, "volume.history", "volume", call.name(), kVolumeView);
  CAIRN_TRY(volume::VolumeInfo info, s_.volumes.set_history(call.who.user, call.name(), history, also));
  return json_response(to_api(info));
}

Result<http::Response> ApiHandlers::break_lease(Call& call) {
  CAIRN_TRY(volume::VolumeInfo info, own_volume(call));
  auto also = recording_done<std::optional<volume::LeaseSummary>>(call, "lease.break");
  CAIRN_CHECK_OK(s_.leases.break_lease(info.id, call.who.name, also));
  return done();
}

}  // namespace cairn::server
