#include <fmt/format.h>

#include "server/api_handlers.h"
#include "server/convert.h"
#include "server/reply.h"
#include "server/seen.h"

namespace cairn::server {
namespace {

// Answers are stored for days; who opens an upload knows his secret.
api::Upload without_secret(const volume::OpenUpload& upload) {
  api::Upload answer = to_api(upload);
  answer.secret.clear();
  return answer;
}

}  // namespace

Result<http::Response> ApiHandlers::open_upload(Call& call) {
  CAIRN_TRY(api::OpenUpload body, call.body<api::OpenUpload>());
  CAIRN_TRY(volume::VolumeInfo info, own_volume(call));
  volume::LeaseRequest request;
  request.volume = info.id;
  request.mode = body.shared ? volume::LeaseMode::kShared : volume::LeaseMode::kExclusive;
  request.kind = volume::HolderKind::kUpload;
  request.holder = body.source.empty() ? "put" : "put from " + body.source;
  request.user = call.who.user;
  request.user_name = call.who.name;
  request.source = body.source;
  request.takeover_secret = body.takeover_secret;
  if (body.secret.empty()) return Error(Code::kRequestInvalid, "an upload needs a secret of 64 random hex digits");
  request.secret = body.secret;
  auto also = recording<volume::OpenUpload>(call, "upload.open", "volume", call.name(),
                                            without_secret);
  CAIRN_TRY(volume::OpenUpload upload, s_.uploads.open(request, also));
  return json_response(without_secret(upload));
}

Result<http::Response> ApiHandlers::heartbeat_upload(Call& call) {
  CAIRN_TRY(api::Heartbeat body, call.body<api::Heartbeat>());
  CAIRN_TRY(UploadId upload, call.id<UploadId>());
  CAIRN_TRY(volume::Lease lease, s_.uploads.heartbeat(upload, body.secret));
  return json_response(api::HeartbeatAnswer{lease.expires_at});
}

Result<http::Response> ApiHandlers::request_packs(Call& call) {
  CAIRN_TRY(api::RequestPacks body, call.body<api::RequestPacks>());
  CAIRN_TRY(UploadId upload, call.id<UploadId>());
  api::PackGrant answer;
  answer.expires_at = s_.clock.now() + SignedUrls::kLife;
  if (!body.to_register.empty()) {
    CAIRN_TRY(volume::Registration registration, s_.uploads.register_packs(upload, body.secret, body.to_register));
    if (!registration.rejected.empty()) return registration.rejected.front().error;
    for (const volume::RegisteredPack& pack : registration.registered) answer.registered.push_back(pack.id);
  }
  if (!body.promise.empty()) {
    std::vector<volume::PackWish> wishes;
    for (const api::PackPromise& promise : body.promise) {
      volume::PackWish wish;
      wish.kind = promise.kind == api::PackKind::kChangeset ? volume::PackKind::kChangeset : volume::PackKind::kData;
      wish.size_bytes = counted(promise.size_bytes);
      wish.crc32c = promise.crc32c;
      wishes.push_back(wish);
    }
    CAIRN_TRY(auto promised, s_.uploads.promise(upload, body.secret, wishes));
    for (const volume::PromisedPack& pack : promised) {
      CAIRN_TRY(object::ObjectKey key, object::ObjectKey::parse(pack.key));
      SignedUrls::Url url = s_.urls.put(key, seen(pack.size_bytes), pack.crc32c);
      answer.promised.push_back({pack.id, std::move(url.text), seen(pack.size_bytes)});
      answer.expires_at = url.expires_at;
    }
  }
  return json_response(answer);
}

Result<http::Response> ApiHandlers::resumable_packs(Call& call) {
  CAIRN_TRY(api::RequestResumable body, call.body<api::RequestResumable>());
  CAIRN_TRY(UploadId upload, call.id<UploadId>());
  int64_t limit = counted(std::clamp<uint64_t>(body.limit, 1, 1'000));
  CAIRN_TRY(auto packs, s_.uploads.resumable(upload, body.secret, body.after, limit));
  api::ResumablePacks answer;
  answer.more = packs.size() == static_cast<size_t>(limit);
  answer.expires_at = s_.clock.now() + SignedUrls::kLife;
  for (const volume::RegisteredPack& pack : packs) {
    CAIRN_TRY(object::ObjectKey key, object::ObjectKey::parse(pack.key));
    SignedUrls::Url url = s_.urls.get(key, seen(pack.size_bytes));
    answer.packs.push_back({pack.id, std::move(url.text), seen(pack.size_bytes), pack.seal});
    answer.expires_at = url.expires_at;
  }
  return json_response(answer);
}

Result<http::Response> ApiHandlers::publish(Call& call) {
  CAIRN_TRY(api::Publish body, call.body<api::Publish>());
  volume::PublishRequest request;
  request.request = call.request;
  CAIRN_TRY(request.upload, call.id<UploadId>());
  request.secret = body.secret;
  request.changeset = body.changeset;
  request.kind = api::kind_name(body.kind);
  request.message = body.message;
  request.interim = body.interim;
  auto also = recording<volume::Publication>(call, "volume.publish", "upload", request.upload.hex(),
                                             [](const volume::Publication& publication) { return to_api(publication); });
  CAIRN_TRY(volume::Publication publication, s_.publisher.publish(request, call.http.deadline, also));
  return json_response(to_api(publication));
}

Result<http::Response> ApiHandlers::close_upload(Call& call) {
  CAIRN_TRY(api::CloseUpload body, call.body<api::CloseUpload>());
  CAIRN_TRY(UploadId upload, call.id<UploadId>());
  CAIRN_CHECK_OK(s_.uploads.close(upload, body.secret));
  return http::Response::json(200, "{}");
}

}  // namespace cairn::server
