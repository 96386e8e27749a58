#include "volume/writer.h"

#include "codec/bytes.h"
#include "codec/digest.h"
#include "store/pack.h"
#include "volume/rows.h"

namespace cairn::volume {

Result<Writer> open_writer(catalog::Tx& tx, UploadId id) {
  CAIRN_TRY(std::optional<catalog::UploadRow> upload, catalog::uploads::find(tx, id));
  if (!upload) return Error(Code::kUploadNotFound, "there is no upload " + id.hex(), "run the command again");
  CAIRN_TRY(std::optional<catalog::LeaseRow> lease, catalog::leases::find(tx, upload->lease));
  if (!lease) return Error(Code::kUploadNotFound, "upload " + id.hex() + " has no lease", "run the command again");
  bool current = lease->state == "current";
  if (!current && !keeps_work_aside(*upload)) return lease_lost(tx, *lease);
  if (upload->state != "open") {
    return Error(Code::kUploadExpired, "upload " + id.hex() + " is " + upload->state,
                 "run the command again: what had arrived is not sent again");
  }
  return Writer{*std::move(upload), *std::move(lease), !current};
}

Result<Writer> authorize(catalog::Tx& tx, UploadId id, std::string_view secret) {
  CAIRN_TRY(std::optional<catalog::UploadRow> upload, catalog::uploads::find(tx, id));
  if (!upload) return Error(Code::kUploadNotFound, "there is no upload " + id.hex(), "run the command again");
  CAIRN_TRY(std::optional<catalog::LeaseRow> lease, catalog::leases::find(tx, upload->lease));
  if (!lease ||
      !codec::constant_time_equal(codec::as_bytes(secret_hash(secret)), codec::as_bytes(lease->secret_hash))) {
    return Error(Code::kNotAllowed, "the secret is not that of upload " + id.hex());
  }
  return open_writer(tx, id);
}

Result<catalog::PackRow> promise_pack(Context& context, catalog::Tx& tx, StoreId store, std::optional<UploadId> upload,
                                      std::string_view kind, int64_t size_bytes, uint32_t crc32c, int64_t ticket) {
  catalog::PackRow row;
  row.id = PackId::random(context.random);
  row.store = store;
  row.upload = upload;
  row.kind = kind;
  row.object_key = store::pack_key(store, row.id).text();
  row.size_bytes = size_bytes;
  row.crc32c = crc32c;
  row.created_ticket = ticket;
  row.touched_ticket = ticket;
  CAIRN_TRY(row.created, context.catalog_clock.now(tx));
  CAIRN_CHECK_OK(catalog::packs::insert_promised(tx, row));
  return row;
}

}  // namespace cairn::volume
