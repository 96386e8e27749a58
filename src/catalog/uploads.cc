#include "catalog/uploads.h"

namespace cairn::catalog::uploads {
namespace {

constexpr char kColumns[] =
    "id, volume_id, store_id, lease_id, user_id, source, kind, holder, state, base_number, published_number, "
    "side_number, "
    "promised_count, opened_us, keep_until_us";

Result<UploadRow> to_upload(const Row& row) {
  UploadRow upload;
  CAIRN_TRY(upload.id, row.id<UploadId>(0));
  CAIRN_TRY(upload.volume, row.id<VolumeId>(1));
  CAIRN_TRY(upload.store, row.id<StoreId>(2));
  CAIRN_TRY(upload.lease, row.id<LeaseId>(3));
  CAIRN_TRY(upload.user, row.id<UserId>(4));
  upload.source = row.text(5);
  upload.kind = row.text(6);
  upload.holder = row.text(7);
  upload.state = row.text(8);
  upload.base_number = row.integer(9);
  upload.published_number = row.integer(10);
  upload.side_number = row.integer(11);
  upload.promised_count = row.integer(12);
  upload.opened = row.time(13);
  upload.keep_until = row.maybe_time(14);
  return upload;
}

Result<bool> hits(Tx& tx, std::string_view sql, const Values& values) {
  CAIRN_TRY(int64_t affected, tx.update(sql, values));
  return affected == 1;
}

}  // namespace

Status insert(Tx& tx, const UploadRow& row) {
  CAIRN_TRY(
      bool inserted,
      hits(tx,
           "insert into uploads (id, volume_id, store_id, lease_id, user_id, source, kind, holder, state, base_number, "
           "published_number, side_number, promised_count, opened_us) "
           "values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 'open', ?9, 0, 0, 0, ?10)",
           {row.id.hex(), row.volume.hex(), row.store.hex(), row.lease.hex(), row.user.hex(), row.source, row.kind,
            row.holder, row.base_number, row.opened.us}));
  if (!inserted) return Error(Code::kInternal, "the upload's row was not inserted");
  return ok();
}

Result<std::optional<UploadRow>> find(Tx& tx, UploadId id) {
  CAIRN_TRY(std::optional<Row> row,
            tx.query_one(std::string("select ") + kColumns + " from uploads where id = ?1", {id.hex()}));
  if (!row) return std::optional<UploadRow>();
  CAIRN_TRY(UploadRow upload, to_upload(*row));
  return std::optional<UploadRow>(std::move(upload));
}

Result<bool> add_promised(Tx& tx, UploadId id, int64_t count, int64_t most) {
  return hits(tx,
              "update uploads set promised_count = promised_count + ?2 "
              "where id = ?1 and state = 'open' and promised_count + ?2 <= ?3",
              {id.hex(), count, most});
}

Status subtract_promised(Tx& tx, UploadId id, int64_t count) {
  CAIRN_CHECK_OK(
      tx.update("update uploads set promised_count = promised_count - ?2 where id = ?1 and promised_count >= ?2",
                {id.hex(), count}));
  return ok();
}

Result<bool> close(Tx& tx, UploadId id, Time now, Time keep_until) {
  return hits(tx,
              "update uploads set state = case when published_number > 0 or side_number > 0 then 'published' else "
              "'closed' end, "
              "ended_us = ?2, keep_until_us = ?3 where id = ?1 and state = 'open'",
              {id.hex(), now.us, keep_until.us});
}

Result<int64_t> lapse_fenced(Tx& tx, VolumeId volume, Time now, Time keep_until) {
  return tx.update(
      "update uploads set state = 'lapsed', ended_us = ?2, keep_until_us = ?3 where volume_id = ?1 and "
      "state = 'open' and kind in ('upload', 'server') and exists "
      "(select 1 from leases l where l.id = uploads.lease_id and l.state = 'ended')",
      {volume.hex(), now.us, keep_until.us});
}

Result<int64_t> lapse_abandoned(Tx& tx, LeaseTime seen_before, Time now) {
  return tx.update(
      "update uploads set state = 'lapsed', ended_us = ?2, keep_until_us = ?2 where state = 'open' and "
      "kind in ('upload', 'server') and exists "
      "(select 1 from leases l where l.id = uploads.lease_id and l.seen_lease_us < ?1)",
      {seen_before.us, now.us});
}

Result<bool> published(Tx& tx, UploadId id, int64_t number) {
  return hits(tx, "update uploads set published_number = ?2, base_number = ?2 where id = ?1 and state = 'open'",
              {id.hex(), number});
}

Result<bool> side_published(Tx& tx, UploadId id, int64_t number) {
  return hits(tx, "update uploads set side_number = ?2 where id = ?1 and state = 'open'", {id.hex(), number});
}

Status forget_side(Tx& tx, VolumeId volume, int64_t number) {
  CAIRN_CHECK_OK(tx.update("update uploads set side_number = 0 where volume_id = ?1 and side_number = ?2",
                           {volume.hex(), number}));
  return ok();
}

Result<std::vector<UploadRow>> list_open(Tx& tx, VolumeId volume, int64_t limit) {
  CAIRN_TRY(Rows rows,
            tx.query(std::string("select ") + kColumns +
                         " from uploads where volume_id = ?1 and state = 'open' and kind in ('run', 'session') "
                         "and given_up = 0 order by opened_us, id limit ?2",
                     {volume.hex(), limit}));
  std::vector<UploadRow> uploads;
  for (const Row& row : rows) {
    CAIRN_TRY(UploadRow upload, to_upload(row));
    uploads.push_back(std::move(upload));
  }
  return uploads;
}

Result<int64_t> give_up(Tx& tx, VolumeId volume) {
  return tx.update(
      "update uploads set given_up = 1 where volume_id = ?1 and state = 'open' and kind in ('run', 'session') and given_up = 0",
      {volume.hex()});
}

Status remove_of_volume(Tx& tx, VolumeId volume) {
  CAIRN_CHECK_OK(tx.update("delete from uploads where volume_id = ?1", {volume.hex()}));
  return ok();
}

Result<int64_t> remove_finished(Tx& tx, Time before, int64_t limit) {
  return tx.update(
      "delete from uploads where id in (select u.id from uploads u where u.state <> 'open' and "
      "u.keep_until_us < ?1 and not exists (select 1 from packs p where p.upload_id = u.id) "
      "order by u.id limit ?2)",
      {before.us, limit});
}

}  // namespace cairn::catalog::uploads
