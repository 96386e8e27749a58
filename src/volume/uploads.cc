#include "volume/uploads.h"

#include <algorithm>
#include <set>

#include "base/quantity.h"
#include "catalog/packs.h"
#include "catalog/pins.h"
#include "catalog/snapshots.h"
#include "catalog/stores.h"
#include "catalog/uploads.h"
#include "catalog/volumes.h"
#include "codec/hex.h"
#include "object/object_store.h"
#include "volume/reads.h"
#include "volume/rows.h"
#include "volume/store_access.h"
#include "volume/writer.h"

namespace cairn::volume {
namespace {

constexpr size_t kRegisterMax = 1'000;
constexpr int64_t kCompletedPerCall = 1'024;

std::string kind_text(PackKind kind) {
  return std::string(pack_kind_name(kind));
}

Status check_wishes(const std::vector<PackWish>& wishes) {
  if (wishes.size() > 256) return Error(Code::kRequestTooLarge, "at most 256 packs are promised in one request");
  for (const PackWish& wish : wishes) {
    auto most = static_cast<int64_t>(wish.kind == PackKind::kData ? limits::kPackBytesMax : limits::kChangesetBytesMax);
    if (wish.size_bytes > 0 && wish.size_bytes <= most) continue;
    return Error(Code::kRequestInvalid, "a " + kind_text(wish.kind) + " pack of " + std::to_string(wish.size_bytes) +
                                            " bytes: 1 to " + std::to_string(most) + " are possible");
  }
  return ok();
}

// The quota counts every byte and refuses only `put`: its source is still there. What a run or session made would be
// lost, and `rm` is how one gets below the quota again.
Status check_quota(const Settings& settings, catalog::Tx& tx, const catalog::UploadRow& upload, int64_t more) {
  if (settings.owner_quota_bytes <= 0 || upload.kind != holder_kind_name(HolderKind::kUpload)) return ok();
  CAIRN_TRY(std::optional<catalog::StoreRow> row, catalog::stores::find(tx, upload.store));
  if (!row) return ok();
  CAIRN_TRY(int64_t stored, catalog::stores::owner_bytes(tx, row->owner));
  if (stored + more <= settings.owner_quota_bytes) return ok();
  return Error(Code::kQuotaExceeded,
               "storing " + human_bytes(more) + " more would exceed the quota of " +
                   human_bytes(settings.owner_quota_bytes) + "; " + human_bytes(stored) + " are in use",
               "delete volumes or snapshots, or ask the operator for more");
}

// What a registration writes down about an object that is as promised.
struct Checked {
  std::string seal;
  int64_t frames = 0;
  int64_t index_offset = 0;
};

Result<Checked> check_object(object::ObjectStore& objects, const catalog::PackRow& pack, const Deadline& deadline) {
  CAIRN_TRY(object::ObjectKey key, object::ObjectKey::parse(pack.object_key));
  CAIRN_TRY(object::ObjectInfo info, objects.head(key, deadline));
  if (info.size != static_cast<uint64_t>(pack.size_bytes)) {
    return Error(Code::kPackInvalid, "pack " + pack.id.hex() + " has " + std::to_string(info.size) +
                                         " bytes, promised were " + std::to_string(pack.size_bytes));
  }
  if (info.crc_known && info.crc32c != static_cast<uint32_t>(pack.crc32c)) {
    return Error(Code::kPackInvalid, "pack " + pack.id.hex() + " has CRC32C " + codec::hex_u32(info.crc32c) +
                                         ", promised was " + codec::hex_u32(static_cast<uint32_t>(pack.crc32c)));
  }
  Checked checked;
  if (pack.kind == "changeset") {
    checked.seal = codec::hex_u32(static_cast<uint32_t>(pack.crc32c));
    return checked;
  }
  Result<PackEnd> end = read_pack_end(objects, pack.object_key, pack.size_bytes, deadline);
  if (!end) return std::move(end).error().while_doing("reading the index of pack " + pack.id.hex());
  checked.seal = end->tail.seal.hex();
  checked.frames = end->tail.frame_count;
  checked.index_offset = end->tail.index_offset;
  return checked;
}

// True for what is wrong with the pack itself, false for a store that cannot be asked.
bool is_verdict(Code code) {
  return code == Code::kPackInvalid || code == Code::kObjectNotFound || code == Code::kDataCorrupt ||
         code == Code::kFormatUnsupported;
}

RegisteredPack registered(const catalog::PackRow& row, const std::string& seal) {
  RegisteredPack pack;
  pack.id = row.id;
  pack.kind = row.kind == "changeset" ? PackKind::kChangeset : PackKind::kData;
  pack.key = row.object_key;
  pack.size_bytes = row.size_bytes;
  if (pack.kind == PackKind::kData) pack.seal = seal;
  return pack;
}

// A promise that was not kept while its URL was good and the last PUT went on is not kept any more. It leaves its
// upload, so that the next one has room.
Status give_up_old(Context& context, const catalog::PackRow& pack) {
  return context.db.transact([&](catalog::Tx& tx) -> Status {
    CAIRN_TRY(Time now, context.catalog_clock.removal_now(tx));
    if (now - pack.created <= context.settings.url_time + context.settings.put_time) return ok();
    CAIRN_TRY(bool given_up, catalog::packs::give_up(tx, pack.id, now));
    return given_up && pack.upload ? catalog::uploads::subtract_promised(tx, *pack.upload, 1) : ok();
  });
}

// Checks the object and makes the row live. False when the row was not promised any more.
Result<bool> complete(Context& context, const catalog::PackRow& pack, Checked& checked) {
  Result<Checked> found = check_object(context.objects, pack, Deadline::after(minutes(1), context.clock));
  if (!found) {
    if (is_verdict(found.error().code())) CAIRN_CHECK_OK(give_up_old(context, pack));
    return std::move(found).error();
  }
  checked = *std::move(found);
  return context.db.transact([&](catalog::Tx& tx) -> Result<bool> {
    CAIRN_TRY(bool live,
              catalog::packs::register_live(tx, pack.id, checked.seal, checked.frames, checked.index_offset));
    if (live && pack.upload) CAIRN_CHECK_OK(catalog::uploads::subtract_promised(tx, *pack.upload, 1));
    return live;
  });
}

// Registers or gives up the old promises of an upload, of whatever kind. True when there were any.
Result<bool> settle_old(Context& context, UploadId id) {
  Time before;
  CAIRN_TRY(std::vector<catalog::PackRow> promised,
            context.db.read([&](catalog::Tx& tx) -> Result<std::vector<catalog::PackRow>> {
              CAIRN_TRY(Time now, context.catalog_clock.removal_now(tx));
              before = now - (context.settings.url_time + context.settings.put_time);
              return catalog::packs::list_by_upload(tx, id, "", "promised", PackId(), kCompletedPerCall);
            }));
  std::erase_if(promised, [&](const catalog::PackRow& pack) { return pack.created >= before; });
  for (const catalog::PackRow& pack : promised) {
    Checked checked;
    Result<bool> live = complete(context, pack, checked);
    if (!live && !is_verdict(live.error().code())) return std::move(live).error();
  }
  return !promised.empty();
}

}  // namespace

std::string_view pack_kind_name(PackKind kind) {
  return kind == PackKind::kData ? "data" : "changeset";
}

Result<OpenUpload> Uploads::open(const LeaseRequest& request, const AlsoInTx<OpenUpload>& also) {
  return context_.db.transact([&](catalog::Tx& tx) -> Result<OpenUpload> {
    CAIRN_TRY(OpenUpload upload, open(tx, request));
    if (also) CAIRN_CHECK_OK(also(tx, upload));
    return upload;
  });
}

Result<OpenUpload> Uploads::open(catalog::Tx& tx, const LeaseRequest& request) {
  OpenUpload upload;
  // Fence first, then the head (F3): what is read from here on nobody else changes.
  CAIRN_TRY(upload.lease, Leases(context_).acquire(tx, request));
  CAIRN_TRY(catalog::VolumeRow volume, created_volume(tx, request.volume));
  upload.id = UploadId::random(context_.random);
  upload.volume = volume.id;
  upload.store = volume.store;
  CAIRN_TRY(Pinned pinned, Reads(context_).pin(tx, volume.id, volume.head_number, "upload " + upload.id.hex()));
  upload.base = pinned.snapshot;
  upload.pin = pinned.pin;
  catalog::UploadRow row;
  row.id = upload.id;
  row.volume = volume.id;
  row.store = volume.store;
  row.lease = upload.lease.id;
  row.user = request.user;
  row.source = request.source;
  row.kind = holder_kind_name(request.kind);
  row.holder = request.holder;
  row.base_number = volume.head_number;
  row.opened = upload.lease.since;
  CAIRN_CHECK_OK(catalog::uploads::insert(tx, row));
  return upload;
}

Result<OpenUpload> Uploads::again(catalog::Tx& tx, UploadId id, std::string_view secret) {
  CAIRN_TRY(Writer writer, authorize(tx, id, secret));
  if (writer.fenced_off) return lease_lost(tx, writer.lease);
  const catalog::UploadRow& row = writer.upload;
  OpenUpload upload;
  upload.id = id;
  upload.volume = row.volume;
  upload.store = row.store;
  CAIRN_TRY(upload.lease, Leases(context_).heartbeat(tx, row.lease, secret));
  upload.lease.secret = secret;
  std::string purpose = "upload " + id.hex();
  CAIRN_TRY(std::optional<catalog::PinRow> pin, catalog::pins::find_by_purpose(tx, row.volume, purpose));
  Pinned pinned;
  if (pin) {
    CAIRN_TRY(pinned, Reads(context_).renew(tx, pin->id));
  } else {
    CAIRN_TRY(pinned, Reads(context_).pin(tx, row.volume, row.base_number, purpose));
  }
  upload.pin = pinned.pin;
  upload.base = std::move(pinned.snapshot);
  return upload;
}

Result<Lease> Uploads::heartbeat(UploadId id, std::string_view secret) {
  CAIRN_TRY(Writer writer, context_.db.read([&](catalog::Tx& tx) { return authorize(tx, id, secret); }));
  return Leases(context_).heartbeat(writer.lease.id, secret);
}

Result<std::vector<PromisedPack>> Uploads::promise(UploadId id, std::string_view secret,
                                                   const std::vector<PackWish>& wishes) {
  CAIRN_CHECK_OK(check_wishes(wishes));
  Result<std::vector<PromisedPack>> promised = promise_now(id, secret, wishes);
  if (promised) return promised;
  Code code = promised.error().code();
  if (code != Code::kLimitExceeded && code != Code::kQuotaExceeded) return promised;
  CAIRN_TRY(bool any, settle_old(context_, id));
  if (any) promised = promise_now(id, secret, wishes);
  return promised;
}

Result<std::vector<PromisedPack>> Uploads::promise_now(UploadId id, std::string_view secret,
                                                       const std::vector<PackWish>& wishes) {
  return context_.db.transact([&](catalog::Tx& tx) -> Result<std::vector<PromisedPack>> {
    std::vector<PromisedPack> promised;
    CAIRN_TRY(Writer writer, authorize(tx, id, secret));
    if (wishes.empty()) return promised;
    CAIRN_TRY(bool within, catalog::uploads::add_promised(tx, id, static_cast<int64_t>(wishes.size()),
                                                          context_.settings.promised_packs_per_upload_max));
    if (!within) {
      return Error(Code::kLimitExceeded,
                   "upload " + id.hex() + " has " + std::to_string(writer.upload.promised_count) + " packs promised, " +
                       std::to_string(context_.settings.promised_packs_per_upload_max) + " are the most",
                   "register what was sent before asking for more");
    }
    int64_t total = 0;
    for (const PackWish& wish : wishes) total += wish.size_bytes;
    CAIRN_CHECK_OK(check_quota(context_.settings, tx, writer.upload, total));
    CAIRN_TRY(int64_t ticket, catalog::stores::next_ticket(tx, writer.upload.store));
    for (const PackWish& wish : wishes) {
      CAIRN_TRY(catalog::PackRow row, promise_pack(context_, tx, writer.upload.store, id, kind_text(wish.kind),
                                                   wish.size_bytes, wish.crc32c, ticket));
      promised.push_back(PromisedPack{row.id, row.object_key, row.size_bytes, wish.crc32c});
    }
    return promised;
  });
}

Result<Registration> Uploads::register_packs(UploadId id, std::string_view secret, const std::vector<PackId>& packs) {
  if (packs.size() > kRegisterMax)
    return Error(Code::kRequestTooLarge, "at most 1000 packs are registered in one request");
  CAIRN_TRY(Writer writer, context_.db.read([&](catalog::Tx& tx) { return authorize(tx, id, secret); }));
  Registration registration;
  for (PackId pack_id : std::set<PackId>(packs.begin(), packs.end())) {
    auto find = [&](catalog::Tx& tx) { return catalog::packs::find(tx, pack_id); };
    CAIRN_TRY(std::optional<catalog::PackRow> row, context_.db.read(find));
    bool known = row && row->store == writer.upload.store && (row->kind == "data" || row->kind == "changeset");
    if (known && row->upload != id && row->state != "promised") {
      // One's own earlier upload's pack: taken over, or not his to take.
      Result<int64_t> adopted = context_.db.transact([&](catalog::Tx& tx) -> Result<int64_t> {
        CAIRN_TRY(Time now, context_.catalog_clock.removal_now(tx));
        CAIRN_TRY(int64_t ticket, catalog::stores::next_ticket(tx, writer.upload.store));
        return catalog::packs::adopt_some(tx, writer.upload.volume, writer.upload.user, id, ticket, now, {pack_id});
      });
      if (!adopted) return std::move(adopted).error();
      CAIRN_TRY(row, context_.db.read(find));
    }
    if (!known || !row || row->upload != id) {
      registration.rejected.push_back(RejectedPack{
          pack_id, Error(Code::kPackInvalid, "pack " + pack_id.hex() + " was not promised to this upload")});
      continue;
    }
    if (row->state == "live") {
      registration.registered.push_back(registered(*row, row->seal.value_or("")));
      continue;
    }
    Checked checked;
    Result<bool> live = row->state == "promised" ? complete(context_, *row, checked) : Result<bool>(false);
    if (!live && !is_verdict(live.error().code())) return std::move(live).error();
    if (!live) {
      registration.rejected.push_back(RejectedPack{pack_id, std::move(live).error()});
    } else if (*live) {
      registration.registered.push_back(registered(*row, checked.seal));
    } else {
      CAIRN_TRY(row, context_.db.read(find));
      if (row && row->state == "live") {
        registration.registered.push_back(registered(*row, row->seal.value_or("")));
      } else {
        registration.rejected.push_back(
            RejectedPack{pack_id, Error(Code::kChunksGone, "pack " + pack_id.hex() + " was removed", "send it again")});
      }
    }
  }
  return registration;
}

Result<std::vector<RegisteredPack>> Uploads::resumable(UploadId id, std::string_view secret, PackId after,
                                                       int64_t limit) {
  CAIRN_TRY(Writer writer, context_.db.read([&](catalog::Tx& tx) { return authorize(tx, id, secret); }));
  const catalog::UploadRow& upload = writer.upload;
  if (after.is_none()) {
    CAIRN_TRY(std::vector<catalog::PackRow> promised,
              context_.db.read([&](catalog::Tx& tx) -> Result<std::vector<catalog::PackRow>> {
                CAIRN_TRY(Time now, context_.catalog_clock.removal_now(tx));
                return catalog::packs::list_completable(tx, upload.volume, upload.user, id, now, kCompletedPerCall);
              }));
    for (const catalog::PackRow& pack : promised) {
      Checked checked;
      Result<bool> live = complete(context_, pack, checked);
      // What never arrived, or arrived broken, is sent again under another id.
      if (!live && !is_verdict(live.error().code())) return std::move(live).error();
    }
    Status adopted = context_.db.transact([&](catalog::Tx& tx) -> Status {
      CAIRN_TRY(Time now, context_.catalog_clock.removal_now(tx));
      CAIRN_TRY(int64_t ticket, catalog::stores::next_ticket(tx, upload.store));
      CAIRN_CHECK_OK(catalog::packs::adopt(tx, upload.volume, upload.user, id, ticket, now));
      return ok();
    });
    CAIRN_CHECK_OK(adopted);
  }
  CAIRN_TRY(std::vector<catalog::PackRow> rows, context_.db.read([&](catalog::Tx& tx) {
    return catalog::packs::list_by_upload(tx, id, "data", "live", after, std::clamp<int64_t>(limit, 1, 1'000));
  }));
  std::vector<RegisteredPack> packs;
  for (const catalog::PackRow& row : rows) packs.push_back(registered(row, row.seal.value_or("")));
  return packs;
}

Status Uploads::close(UploadId id, std::string_view secret) {
  return context_.db.transact([&](catalog::Tx& tx) -> Status {
    Result<Writer> writer = authorize(tx, id, secret);
    if (!writer && (writer.error().code() == Code::kUploadExpired || writer.error().code() == Code::kLeaseLost))
      return ok();
    if (!writer) return std::move(writer).error();
    return close(tx, id);
  });
}

Status Uploads::close(catalog::Tx& tx, UploadId id) {
  CAIRN_TRY(std::optional<catalog::UploadRow> upload, catalog::uploads::find(tx, id));
  if (!upload) return ok();
  CAIRN_TRY(Time now, context_.catalog_clock.now(tx));
  CAIRN_CHECK_OK(catalog::uploads::close(tx, id, now, now + context_.settings.unfinished_upload_time));
  CAIRN_CHECK_OK(catalog::pins::remove_by_purpose(tx, upload->volume, "upload " + id.hex()));
  return Leases(context_).release(tx, upload->lease);
}

Result<int64_t> Uploads::lapse_abandoned() {
  return context_.db.transact([&](catalog::Tx& tx) -> Result<int64_t> {
    CAIRN_TRY(Instant at, instant(context_, tx));
    return catalog::uploads::lapse_abandoned(tx, at.lease_now - context_.settings.unfinished_upload_time, at.now);
  });
}

}  // namespace cairn::volume
