#include <fmt/format.h>

#include "base/limits.h"
#include "server/api_handlers.h"
#include "server/convert.h"
#include "server/reply.h"
#include "server/seen.h"

namespace cairn::server {
namespace {

Result<std::string> path_parameter(Call& call, const char* name) {
  CAIRN_TRY(std::string path, call.query.hex(name));
  if (path.size() > limits::kPathBytesMax) {
    return Error(Code::kPathInvalid, fmt::format("the path has {} bytes; at most {}", path.size(), limits::kPathBytesMax));
  }
  return path;
}

// Which state to read: ?pin= or ?snapshot=, else the head.
Result<volume::ReadFrom> read_from(Call& call) {
  volume::ReadFrom from;
  CAIRN_TRY(PinId pin, call.query.id<PinId>("pin"));
  CAIRN_TRY(uint64_t snapshot, call.query.number("snapshot", 0, INT64_MAX));
  if (!pin.is_none() && snapshot != 0) return Error(Code::kRequestInvalid, "either 'pin' or 'snapshot' may be given");
  if (!pin.is_none()) from.pin = pin;
  if (snapshot != 0) from.snapshot = counted(snapshot);
  return from;
}

}  // namespace

Result<http::Response> ApiHandlers::create_pin(Call& call) {
  CAIRN_TRY(api::CreatePin body, call.body<api::CreatePin>());
  CAIRN_TRY(volume::VolumeInfo info, own_volume(call));
  std::optional<int64_t> snapshot;
  if (body.snapshot != 0) snapshot = counted(body.snapshot);
  // A pin is no change of the volume: its answer is stored, nothing stands in the audit trail.
  volume::AlsoInTx<volume::Pinned> also = [&](catalog::Tx& tx, const volume::Pinned& pinned) -> Status {
    if (!call.stored_key) return ok();
    CAIRN_TRY(Time at, s_.catalog_clock.now(tx));
    CAIRN_CHECK_OK(catalog::store_request(tx, *call.stored_key, {200, api::to_json(to_api(pinned))}, at));
    call.stored = true;
    return ok();
  };
  CAIRN_TRY(volume::Pinned pinned, s_.reads.pin(info.id, snapshot, "read by " + call.who.name, also));
  return json_response(to_api(pinned));
}

Result<http::Response> ApiHandlers::delete_pin(Call& call) {
  CAIRN_TRY(PinId pin, call.id<PinId>());
  CAIRN_CHECK_OK(s_.reads.unpin(pin));
  return http::Response::json(200, "{}");
}

// A pin's id is 128 random bits that only its holder knows: it stands for the right to read that snapshot, so that a node reads
// what a user's run was granted.
Result<http::Response> ApiHandlers::listing(Call& call) {
  CAIRN_TRY(PinId pin, call.query.id<PinId>("pin"));
  CAIRN_TRY(std::string path, path_parameter(call, "path"));
  CAIRN_TRY(std::string after, path_parameter(call, "after"));
  CAIRN_TRY(uint64_t chunk_after, call.query.number("chunk_after", 0, limits::kFileBytesMax));
  CAIRN_TRY(uint64_t max_bytes, call.query.number("max_bytes", 4 * limits::kMiB, api::kListingBytesMax));
  CAIRN_CHECK_OK(call.no_more_parameters());
  if (pin.is_none()) return Error(Code::kRequestInvalid, "query parameter 'pin' is missing");
  CAIRN_TRY(volume::ListingPage page, s_.reads.listing(pin, path, after, chunk_after, max_bytes));
  http::Response response;
  response.headers.add("Content-Type", "application/octet-stream");
  if (page.more) {
    api::ListingCursor cursor{page.next_after, page.next_chunk};
    response.headers.add(std::string(api::kNextHeader), api::to_text(cursor));
  }
  response.body.assign(page.changeset.begin(), page.changeset.end());
  return response;
}

Result<http::Response> ApiHandlers::list_entries(Call& call) {
  CAIRN_TRY(volume::ReadFrom from, read_from(call));
  CAIRN_TRY(std::string path, path_parameter(call, "path"));
  CAIRN_TRY(std::string after, path_parameter(call, "after"));
  CAIRN_TRY(uint64_t limit, call.query.number("limit", 1'000, api::kEntriesPerPageMax));
  CAIRN_CHECK_OK(call.no_more_parameters());
  CAIRN_TRY(volume::VolumeInfo info, own_volume(call));
  CAIRN_TRY(volume::NamesPage page, s_.reads.ls(info.id, from, path, after, counted(limit)));
  api::EntryPage answer;
  answer.snapshot = seen(page.snapshot);
  answer.entries.reserve(page.entries.size());
  for (const volume::EntryInfo& entry : page.entries) answer.entries.push_back(to_api(entry));
  if (page.more) answer.next = page.next_after;
  return json_response(answer);
}

Result<http::Response> ApiHandlers::usage(Call& call) {
  CAIRN_TRY(volume::ReadFrom from, read_from(call));
  CAIRN_TRY(std::string path, path_parameter(call, "path"));
  CAIRN_CHECK_OK(call.no_more_parameters());
  CAIRN_TRY(volume::VolumeInfo info, own_volume(call));
  CAIRN_TRY(volume::Counts counts, s_.reads.du(info.id, from, path));
  api::Usage answer;
  answer.snapshot = seen(counts.snapshot);
  answer.path = path;
  answer.entries = seen(counts.entries);
  answer.files = seen(counts.files);
  answer.bytes = seen(counts.bytes);
  return json_response(answer);
}

Result<http::Response> ApiHandlers::stat(Call& call) {
  CAIRN_TRY(volume::ReadFrom from, read_from(call));
  CAIRN_TRY(std::string path, path_parameter(call, "path"));
  CAIRN_CHECK_OK(call.no_more_parameters());
  CAIRN_TRY(volume::VolumeInfo info, own_volume(call));
  CAIRN_TRY(volume::EntryInfo entry, s_.reads.stat(info.id, from, path));
  return json_response(to_api(entry));
}

Result<http::Response> ApiHandlers::request_urls(Call& call) {
  CAIRN_TRY(api::RequestUrls body, call.body<api::RequestUrls>());
  CAIRN_TRY(auto grants, s_.reads.grant(body.pin, body.packs));
  api::UrlGrant answer;
  answer.expires_at = s_.clock.now() + SignedUrls::kLife;
  for (const volume::PackGrant& grant : grants) {
    CAIRN_TRY(object::ObjectKey key, object::ObjectKey::parse(grant.key));
    SignedUrls::Url url = s_.urls.get(key, seen(grant.size_bytes));
    answer.urls.push_back({grant.id, std::move(url.text), seen(grant.size_bytes)});
    answer.expires_at = url.expires_at;
  }
  return json_response(answer);
}

Result<http::Response> ApiHandlers::remove_paths(Call& call) {
  CAIRN_TRY(api::RemovePaths body, call.body<api::RemovePaths>());
  CAIRN_TRY(volume::VolumeInfo info, own_volume(call));
  volume::RemoveRequest request;
  request.request = call.request;
  request.volume = info.id;
  request.actor = actor(call);
  request.paths = body.paths;
  request.message = body.message;
  auto also = recording<volume::Publication>(call, "volume.remove", "volume", call.name(),
                                             [](const volume::Publication& publication) { return to_api(publication); });
  CAIRN_TRY(volume::Publication publication, s_.publisher.remove(request, call.http.deadline, also));
  return json_response(to_api(publication));
}

}  // namespace cairn::server
