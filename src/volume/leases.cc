#include "volume/leases.h"

#include "catalog/leases.h"
#include "catalog/uploads.h"
#include "catalog/utf8.h"
#include "catalog/volumes.h"
#include "codec/digest.h"
#include "codec/hex.h"
#include "volume/rows.h"

namespace cairn::volume {
namespace {

constexpr size_t kHolderBytesMax = 200;
constexpr size_t kSourceBytesMax = 4096;

std::string_view mode_name(LeaseMode mode) {
  return mode == LeaseMode::kExclusive ? "exclusive" : "shared";
}

Status check_request(const LeaseRequest& request) {
  if (request.mode == LeaseMode::kShared) {
    return Error(Code::kRequestInvalid, "shared writing is not built", "open the volume for exclusive writing");
  }
  if (request.holder.empty() || request.holder.size() > kHolderBytesMax || !catalog::is_catalog_text(request.holder)) {
    return Error(Code::kRequestInvalid, "the holder must be 1 to 200 bytes of UTF-8 text");
  }
  if (request.source.size() > kSourceBytesMax || !catalog::is_catalog_text(request.source)) {
    return Error(Code::kRequestInvalid, "the source must be at most 4096 bytes of UTF-8 text");
  }
  if (!request.secret.empty() && (request.secret.size() != codec::kSecretDigits || !codec::hex_decode(request.secret))) {
    return Error(Code::kRequestInvalid, "the secret of a lease must be 64 lower-case hex digits");
  }
  return ok();
}

Duration time_of(const Settings& settings, std::string_view kind) {
  return kind == "server" ? settings.server_lease_time : settings.lease_time;
}

// F10: the secret at once; the same person's same source after a minute of silence; anyone after the lease's time. The
// source of a server's own change names its request, so whoever comes with it is that very request again.
bool may_take(const LeaseRequest& request, const catalog::LeaseRow& held, const Settings& settings,
              catalog::LeaseTime lease_now) {
  if (!request.takeover_secret.empty() &&
      codec::constant_time_equal(codec::as_bytes(secret_hash(request.takeover_secret)),
                                 codec::as_bytes(held.secret_hash))) {
    return true;
  }
  bool same_source = held.user == request.user && !held.source.empty() && held.source == request.source &&
                     held.kind == holder_kind_name(request.kind);
  if (same_source && request.kind == HolderKind::kServer) return true;
  if (same_source && request.kind == HolderKind::kUpload && lease_now - held.seen_lease >= settings.same_source_time) {
    return true;
  }
  return lease_now >= held.expires_lease;
}

Error held_error(const catalog::VolumeRow& volume, const catalog::LeaseRow& held, const Instant& at) {
  LeaseSummary summary = lease_summary(held, at);
  std::string message = "volume '" + volume.name + "' is being written by " + held.kind + " " + held.holder + " of " +
                        (held.user_name.empty() ? held.user.hex() : held.user_name) + " since " +
                        to_rfc3339(summary.since) + "; its lease lasts until " + to_rfc3339(summary.expires_at) +
                        " unless it is renewed";
  return Error(Code::kWriterLeaseHeld, message, ending_hint(held.kind, volume.name, held.holder))
      .with_holder(held.kind + " " + held.holder);
}

}  // namespace

std::string_view holder_kind_name(HolderKind kind) {
  switch (kind) {
    case HolderKind::kUpload: return "upload";
    case HolderKind::kRun: return "run";
    case HolderKind::kSession: return "session";
    case HolderKind::kServer: return "server";
  }
  return "upload";
}

Result<Lease> Leases::acquire(const LeaseRequest& request) {
  return context_.db.transact([&](catalog::Tx& tx) { return acquire(tx, request); });
}

Result<Lease> Leases::acquire(catalog::Tx& tx, const LeaseRequest& request) {
  CAIRN_CHECK_OK(check_request(request));
  CAIRN_TRY(Instant at, instant(context_, tx));
  CAIRN_TRY(catalog::VolumeRow volume, created_volume(tx, request.volume));
  // The fence is taken first: from here on two grants of this volume exclude each other.
  CAIRN_TRY(std::optional<int64_t> fence, catalog::volumes::next_fence(tx, request.volume));
  if (!fence) return volume_not_found(volume.name);
  CAIRN_TRY(std::vector<catalog::LeaseRow> current, catalog::leases::list_current(tx, request.volume));
  for (const catalog::LeaseRow& held : current) {
    if (!may_take(request, held, context_.settings, at.lease_now)) return held_error(volume, held, at);
  }
  if (!current.empty()) {
    CAIRN_CHECK_OK(catalog::leases::end_all(tx, request.volume, at.now, "taken over by " + request.holder));
    CAIRN_CHECK_OK(
        catalog::uploads::lapse_fenced(tx, request.volume, at.now, at.now + context_.settings.unfinished_upload_time));
  }
  Lease lease;
  lease.id = LeaseId::random(context_.random);
  lease.volume = request.volume;
  lease.kind = request.kind;
  lease.holder = request.holder;
  lease.secret = request.secret.empty() ? codec::random_secret(context_.random) : request.secret;
  lease.fence = static_cast<uint64_t>(*fence);
  lease.since = at.now;
  catalog::LeaseRow row;
  row.id = lease.id;
  row.volume = request.volume;
  row.mode = mode_name(request.mode);
  row.kind = holder_kind_name(request.kind);
  row.holder = request.holder;
  row.user = request.user;
  row.user_name = request.user_name;
  row.source = request.source;
  row.secret_hash = secret_hash(lease.secret);
  row.fence = *fence;
  row.since = at.now;
  row.seen = at.now;
  row.seen_lease = at.lease_now;
  row.expires_lease = at.lease_now + time_of(context_.settings, row.kind);
  lease.expires_at = catalog::CatalogClock::wall_estimate(at.now, at.lease_now, row.expires_lease);
  CAIRN_CHECK_OK(catalog::leases::insert(tx, row));
  return lease;
}

Result<Lease> Leases::heartbeat(LeaseId id, std::string_view secret) {
  return context_.db.transact([&](catalog::Tx& tx) { return heartbeat(tx, id, secret); });
}

Result<Lease> Leases::heartbeat(catalog::Tx& tx, LeaseId id, std::string_view secret) {
  CAIRN_TRY(std::optional<catalog::LeaseRow> row, catalog::leases::find(tx, id));
  if (!row) return Error(Code::kLeaseLost, "there is no lease " + id.hex(), "run the command again");
  if (row->secret_hash != secret_hash(secret)) {
    return Error(Code::kNotAllowed, "the secret is not that of lease " + id.hex());
  }
  CAIRN_TRY(Instant at, instant(context_, tx));
  catalog::LeaseTime expires = at.lease_now + time_of(context_.settings, row->kind);
  CAIRN_TRY(bool alive, catalog::leases::heartbeat(tx, id, row->secret_hash, at.now, at.lease_now, expires));
  if (!alive) return lease_lost(tx, *row);
  Lease lease;
  lease.id = id;
  lease.volume = row->volume;
  lease.kind = row->kind == "run"       ? HolderKind::kRun
               : row->kind == "session" ? HolderKind::kSession
               : row->kind == "server"  ? HolderKind::kServer
                                        : HolderKind::kUpload;
  lease.holder = row->holder;
  lease.fence = static_cast<uint64_t>(row->fence);
  lease.since = row->since;
  lease.expires_at = catalog::CatalogClock::wall_estimate(at.now, at.lease_now, expires);
  return lease;
}

Status Leases::release(LeaseId id, std::string_view secret) {
  return context_.db.transact([&](catalog::Tx& tx) -> Status {
    CAIRN_TRY(std::optional<catalog::LeaseRow> row, catalog::leases::find(tx, id));
    if (!row) return ok();
    if (row->secret_hash != secret_hash(secret)) {
      return Error(Code::kNotAllowed, "the secret is not that of lease " + id.hex());
    }
    return release(tx, id);
  });
}

Status Leases::release(catalog::Tx& tx, LeaseId id) {
  CAIRN_TRY(Time now, context_.catalog_clock.now(tx));
  CAIRN_CHECK_OK(catalog::leases::end(tx, id, now, "released"));
  return ok();
}

Result<std::optional<LeaseSummary>> Leases::break_lease(VolumeId volume, std::string_view by_whom,
                                                        const AlsoInTx<std::optional<LeaseSummary>>& also) {
  return context_.db.transact([&](catalog::Tx& tx) -> Result<std::optional<LeaseSummary>> {
    CAIRN_TRY(Instant at, instant(context_, tx));
    CAIRN_TRY(std::optional<int64_t> fence, catalog::volumes::next_fence(tx, volume));
    if (!fence) return Error(Code::kVolumeNotFound, "there is no volume with id " + volume.hex());
    CAIRN_TRY(std::vector<catalog::LeaseRow> current, catalog::leases::list_current(tx, volume));
    std::optional<LeaseSummary> ended;
    if (!current.empty()) {
      CAIRN_CHECK_OK(catalog::leases::end_all(tx, volume, at.now, "broken by " + std::string(by_whom)));
      CAIRN_CHECK_OK(
          catalog::uploads::lapse_fenced(tx, volume, at.now, at.now + context_.settings.unfinished_upload_time));
      ended = lease_summary(current.front(), at);
    }
    CAIRN_CHECK_OK(catalog::uploads::give_up(tx, volume));
    if (also) CAIRN_CHECK_OK(also(tx, ended));
    return ended;
  });
}

Result<std::optional<LeaseSummary>> Leases::current(VolumeId volume) {
  return context_.db.read([&](catalog::Tx& tx) -> Result<std::optional<LeaseSummary>> {
    CAIRN_TRY(Instant at, instant(context_, tx));
    CAIRN_TRY(std::vector<catalog::LeaseRow> current, catalog::leases::list_current(tx, volume));
    if (current.empty()) return std::optional<LeaseSummary>();
    return std::optional<LeaseSummary>(lease_summary(current.front(), at));
  });
}

}  // namespace cairn::volume
