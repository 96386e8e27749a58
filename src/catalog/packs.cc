#include "catalog/packs.h"

#include "catalog/id_list.h"

namespace cairn::catalog::packs {
namespace {

constexpr char kColumns[] =
    "p.id, p.store_id, p.upload_id, p.kind, p.object_key, p.state, p.size_bytes, p.crc32c, p.seal, p.frames, "
    "p.index_offset, "
    "p.created_ticket, p.touched_ticket, p.created_us, p.condemned_us, p.delete_attempts";

// Packs of an open upload, and of an unfinished one for its time, are roots of their own (?N: now).
std::string unprotected(const std::string& now) {
  return "not exists (select 1 from uploads u where u.id = packs.upload_id and (u.state = 'open' or "
         "(u.state in ('closed', 'lapsed') and u.keep_until_us > " +
         now + ")))";
}

std::string unfinished(const std::string& volume, const std::string& user, const std::string& now) {
  return "(select u.id from uploads u where u.volume_id = " + volume + " and u.user_id = " + user +
         " and u.state in ('closed', 'lapsed') and u.keep_until_us > " + now + ")";
}

Result<PackRow> to_pack(const Row& row) {
  PackRow pack;
  CAIRN_TRY(pack.id, row.id<PackId>(0));
  CAIRN_TRY(pack.store, row.id<StoreId>(1));
  if (!row.is_null(2)) {
    CAIRN_TRY(UploadId upload, row.id<UploadId>(2));
    pack.upload = upload;
  }
  pack.kind = row.text(3);
  pack.object_key = row.text(4);
  pack.state = row.text(5);
  pack.size_bytes = row.integer(6);
  pack.crc32c = row.integer(7);
  pack.seal = row.maybe_text(8);
  pack.frames = row.integer(9);
  pack.index_offset = row.integer(10);
  pack.created_ticket = row.integer(11);
  pack.touched_ticket = row.integer(12);
  pack.created = row.time(13);
  pack.condemned = row.maybe_time(14);
  pack.delete_attempts = row.integer(15);
  return pack;
}

Result<std::vector<PackRow>> many(Tx& tx, const std::string& sql, const Values& values) {
  CAIRN_TRY(Rows rows, tx.query(sql, values));
  std::vector<PackRow> packs;
  packs.reserve(rows.size());
  for (const Row& row : rows) {
    CAIRN_TRY(PackRow pack, to_pack(row));
    packs.push_back(std::move(pack));
  }
  return packs;
}

Result<std::optional<PackRow>> one(Tx& tx, const std::string& sql, const Values& values) {
  CAIRN_TRY(std::optional<Row> row, tx.query_one(sql, values));
  if (!row) return std::optional<PackRow>();
  CAIRN_TRY(PackRow pack, to_pack(*row));
  return std::optional<PackRow>(std::move(pack));
}

std::string select(const std::string& rest) {
  return std::string("select ") + kColumns + " from packs p " + rest;
}

}  // namespace

Status insert_promised(Tx& tx, const PackRow& row) {
  CAIRN_TRY(
      int64_t affected,
      tx.update("insert into packs (id, store_id, upload_id, kind, object_key, state, size_bytes, crc32c, frames, "
                "index_offset, created_ticket, touched_ticket, created_us, delete_attempts) "
                "values (?1, ?2, ?3, ?4, ?5, 'promised', ?6, ?7, 0, 0, ?8, ?8, ?9, 0)",
                {row.id.hex(), row.store.hex(), row.upload ? Value(row.upload->hex()) : Value(), row.kind,
                 row.object_key, row.size_bytes, row.crc32c, row.created_ticket, row.created.us}));
  if (affected != 1) return Error(Code::kInternal, "the row of pack " + row.id.hex() + " was not inserted");
  return ok();
}

Result<std::optional<PackRow>> find(Tx& tx, PackId id) {
  return one(tx, select("where p.id = ?1"), {id.hex()});
}

Result<bool> register_live(Tx& tx, PackId id, const std::string& seal, int64_t frames, int64_t index_offset) {
  CAIRN_TRY(int64_t affected, tx.update("update packs set state = 'live', seal = ?2, frames = ?3, index_offset = ?4 "
                                        "where id = ?1 and state = 'promised'",
                                        {id.hex(), seal, frames, index_offset}));
  return affected == 1;
}

Result<bool> give_up(Tx& tx, PackId id, Time now) {
  CAIRN_TRY(int64_t affected, tx.update("update packs set state = 'condemned', condemned_us = ?2, upload_id = null "
                                        "where id = ?1 and state = 'promised'",
                                        {id.hex(), now.us}));
  return affected == 1;
}

Result<std::vector<PackRow>> list_by_upload(Tx& tx, UploadId upload, const std::string& kind, const std::string& state,
                                            PackId after, int64_t limit) {
  return many(tx,
              select("where p.upload_id = ?1 and (?2 = '' or p.kind = ?2) and (?3 = '' or p.state = ?3) and p.id > ?4 "
                     "order by p.id limit ?5"),
              {upload.hex(), kind, state, after.hex(), limit});
}

Result<std::vector<PackRow>> list_completable(Tx& tx, VolumeId volume, UserId user, UploadId upload, Time now,
                                              int64_t limit) {
  return many(tx,
              select("where p.state = 'promised' and p.kind = 'data' and (p.upload_id = ?3 or p.upload_id in " +
                     unfinished("?1", "?2", "?4") + ") order by p.id limit ?5"),
              {volume.hex(), user.hex(), upload.hex(), now.us, limit});
}

Result<int64_t> adopt(Tx& tx, VolumeId volume, UserId user, UploadId upload, int64_t ticket, Time now) {
  return tx.update(
      "update packs set upload_id = ?3, touched_ticket = ?4, state = 'live', condemned_us = null "
      "where state in ('live', 'condemned') and seal is not null and kind = 'data' and upload_id in " +
          unfinished("?1", "?2", "?5"),
      {volume.hex(), user.hex(), upload.hex(), ticket, now.us});
}

Result<int64_t> adopt_some(Tx& tx, VolumeId volume, UserId user, UploadId upload, int64_t ticket, Time now,
                           const std::vector<PackId>& ids) {
  const std::string sql =
      "update packs set upload_id = ?3, touched_ticket = ?4, state = 'live', condemned_us = null "
      "where state in ('live', 'condemned') and seal is not null and kind = 'data' and upload_id in " +
      unfinished("?1", "?2", "?5") + " and id in " + id_places(6);
  return for_id_batches(ids, {volume.hex(), user.hex(), upload.hex(), ticket, now.us},
                        [&](const Values& values) { return tx.update(sql, values); });
}

Result<std::optional<PackRow>> find_nameable(Tx& tx, StoreId store, VolumeId volume, UploadId upload, PackId id) {
  return one(
      tx,
      select("where p.id = ?1 and p.store_id = ?2 and p.kind = 'data' and p.state in ('live', 'condemned') and "
             "p.seal is not null and (p.upload_id = ?3 or exists (select 1 from volume_packs v where v.volume_id = ?4 "
             "and v.pack_id = p.id))"),
      {id.hex(), store.hex(), upload.hex(), volume.hex()});
}

Result<int64_t> touch(Tx& tx, StoreId store, const std::vector<PackId>& ids, int64_t ticket) {
  const std::string sql =
      "update packs set touched_ticket = ?2, state = 'live', condemned_us = null, upload_id = null "
      "where store_id = ?1 and state in ('live', 'condemned') and seal is not null and id in " +
      id_places(3);
  return for_id_batches(ids, {store.hex(), ticket}, [&](const Values& values) { return tx.update(sql, values); });
}

Result<std::vector<PackId>> untouchable(Tx& tx, StoreId store, const std::vector<PackId>& ids) {
  std::vector<PackId> gone;
  for (PackId id : ids) {
    CAIRN_TRY(std::optional<Row> row,
              tx.query_one("select 1 from packs where id = ?1 and store_id = ?2 and seal is not null "
                           "and state in ('live', 'condemned')",
                           {id.hex(), store.hex()}));
    if (!row) gone.push_back(id);
  }
  return gone;
}

Status detach(Tx& tx, PackId id) {
  CAIRN_CHECK_OK(tx.update("update packs set upload_id = null where id = ?1", {id.hex()}));
  return ok();
}

Result<std::vector<PackRow>> list_condemnable(Tx& tx, StoreId store, int64_t ticket, Time now, PackId after,
                                              int64_t limit) {
  std::string condition = unprotected("?3");
  for (size_t at; (at = condition.find("packs.upload_id")) != std::string::npos;) condition.replace(at, 5, "p");
  return many(tx,
              select("where p.store_id = ?1 and p.state in ('live', 'promised') and p.created_ticket < ?2 and "
                     "p.touched_ticket < ?2 and p.id > ?4 and " +
                     condition + " order by p.id limit ?5"),
              {store.hex(), ticket, now.us, after.hex(), limit});
}

Result<int64_t> condemn(Tx& tx, StoreId store, const std::vector<PackId>& ids, int64_t ticket, Time now) {
  const std::string sql =
      "update packs set state = 'condemned', condemned_us = ?3 where store_id = ?1 and state in ('live', 'promised') "
      "and created_ticket < ?2 and touched_ticket < ?2 and " +
      unprotected("?3") + " and id in " + id_places(4);
  return for_id_batches(ids, {store.hex(), ticket, now.us},
                        [&](const Values& values) { return tx.update(sql, values); });
}

Result<int64_t> begin_deleting(Tx& tx, StoreId store, Time before, int64_t limit) {
  return tx.update(
      "update packs set state = 'deleting' where state = 'condemned' and condemned_us <= ?2 and id in "
      "(select p.id from packs p where p.store_id = ?1 and p.state = 'condemned' and p.condemned_us <= ?2 "
      "order by p.condemned_us, p.id limit ?3)",
      {store.hex(), before.us, limit});
}

Result<int64_t> begin_deleting_all(Tx& tx, StoreId store) {
  return tx.update(
      "update packs set state = 'deleting' where store_id = ?1 and state <> 'deleting' and exists "
      "(select 1 from stores s where s.id = ?1 and s.state = 'removing')",
      {store.hex()});
}

Result<std::vector<PackRow>> list_deleting(Tx& tx, StoreId store, PackId after, int64_t limit) {
  return many(tx, select("where p.store_id = ?1 and p.state = 'deleting' and p.id > ?2 order by p.id limit ?3"),
              {store.hex(), after.hex(), limit});
}

Result<bool> remove(Tx& tx, PackId id) {
  CAIRN_TRY(int64_t affected, tx.update("delete from packs where id = ?1 and state = 'deleting'", {id.hex()}));
  if (affected != 1) return false;
  CAIRN_CHECK_OK(tx.update("delete from volume_packs where pack_id = ?1", {id.hex()}));
  return true;
}

Status delete_failed(Tx& tx, PackId id, const std::string& error) {
  CAIRN_CHECK_OK(
      tx.update("update packs set delete_attempts = delete_attempts + 1, delete_error = ?2 "
                "where id = ?1 and state = 'deleting'",
                {id.hex(), error}));
  return ok();
}

Status add_to_volume(Tx& tx, VolumeId volume, const std::vector<PackId>& ids) {
  std::string sql = "insert into volume_packs (volume_id, pack_id) values ";
  for (size_t i = 0; i < kIdsPerStatement; ++i) {
    if (i > 0) sql += ", ";
    sql += "(?1, ?" + std::to_string(i + 2) + ")";
  }
  sql += " on conflict do nothing";
  CAIRN_CHECK_OK(for_id_batches(ids, {volume.hex()}, [&](const Values& values) { return tx.update(sql, values); }));
  return ok();
}

Result<std::optional<PackRow>> find_of_volume(Tx& tx, VolumeId volume, PackId id) {
  return one(
      tx,
      select(
          "where p.id = ?2 and p.kind = 'data' and p.state in ('live', 'condemned') and p.seal is not null and exists "
          "(select 1 from volume_packs v where v.volume_id = ?1 and v.pack_id = p.id)"),
      {volume.hex(), id.hex()});
}

Status remove_of_volume(Tx& tx, VolumeId volume) {
  CAIRN_CHECK_OK(tx.update("delete from volume_packs where volume_id = ?1", {volume.hex()}));
  return ok();
}

}  // namespace cairn::catalog::packs
