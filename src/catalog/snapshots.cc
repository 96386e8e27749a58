#include "catalog/snapshots.h"

#include "catalog/catalog_clock.h"

namespace cairn::catalog::snapshots {
namespace {

constexpr char kColumns[] =
    "s.volume_id, s.number, s.root_digest, s.root_place, s.record_pack_id, s.kind, s.message, s.author_user_id, "
    "s.author_name, s.entries, s.files, s.bytes, s.base_number, s.fence, s.upload_id, s.lease_id, s.interim, s.side, "
    "s.side_label, s.tag, s.created_us, s.superseded_us, s.expires_us";

Result<SnapshotRow> to_snapshot(const Row& row) {
  SnapshotRow snapshot;
  CAIRN_TRY(snapshot.volume, row.id<VolumeId>(0));
  snapshot.number = row.integer(1);
  snapshot.root_digest = row.text(2);
  snapshot.root_place = row.text(3);
  if (!row.is_null(4)) {
    CAIRN_TRY(PackId record, row.id<PackId>(4));
    snapshot.record_pack = record;
  }
  snapshot.kind = row.text(5);
  snapshot.message = row.text(6);
  CAIRN_TRY(snapshot.author, row.id<UserId>(7));
  snapshot.author_name = row.text(8);
  snapshot.entries = row.integer(9);
  snapshot.files = row.integer(10);
  snapshot.bytes = row.integer(11);
  snapshot.base_number = row.integer(12);
  snapshot.fence = row.integer(13);
  if (!row.is_null(14)) {
    CAIRN_TRY(UploadId upload, row.id<UploadId>(14));
    snapshot.upload = upload;
  }
  if (!row.is_null(15)) {
    CAIRN_TRY(LeaseId lease, row.id<LeaseId>(15));
    snapshot.lease = lease;
  }
  snapshot.interim = row.boolean(16);
  snapshot.side = row.boolean(17);
  snapshot.side_label = row.text(18);
  snapshot.tag = row.text(19);
  snapshot.created = row.time(20);
  snapshot.superseded = row.maybe_time(21);
  snapshot.expires = row.maybe_time(22);
  return snapshot;
}

std::string select(const std::string& rest) {
  return std::string("select ") + kColumns + " from snapshots s " + rest;
}

Result<std::vector<SnapshotRow>> many(Tx& tx, const std::string& sql, const Values& values) {
  CAIRN_TRY(Rows rows, tx.query(sql, values));
  std::vector<SnapshotRow> snapshots;
  snapshots.reserve(rows.size());
  for (const Row& row : rows) {
    CAIRN_TRY(SnapshotRow snapshot, to_snapshot(row));
    snapshots.push_back(std::move(snapshot));
  }
  return snapshots;
}

// ?1 is the volume, ?2 is now. What retention may take, whatever its policy.
std::string retire(const std::string& which) {
  return std::string(
             "delete from snapshots where volume_id = ?1 and tag = '' "
             "and exists (select 1 from volumes v where v.id = ?1 and v.state = 'created' "
             "and v.head_number <> snapshots.number) "
             "and not exists (select 1 from pins p where p.volume_id = ?1 and p.number = snapshots.number "
             "and p.expires_lease_us > ") +
         kLeaseNowSql +
         ") and not exists (select 1 from uploads u where u.volume_id = ?1 and (u.base_number = snapshots.number "
         "or (snapshots.side = 1 and u.side_number = snapshots.number)) "
         "and (u.state = 'open' or (u.state in ('closed', 'lapsed') and u.keep_until_us > ?2))) "
         "and not exists (select 1 from snapshots d where d.volume_id = ?1 and d.side = 1 "
         "and d.base_number = snapshots.number) and " +
         which;
}

}  // namespace

Result<bool> insert(Tx& tx, const SnapshotRow& row) {
  CAIRN_TRY(
      int64_t affected,
      tx.update("insert into snapshots (volume_id, number, root_digest, root_place, record_pack_id, kind, message, "
                "author_user_id, author_name, entries, files, bytes, base_number, fence, upload_id, lease_id, interim, "
                "side, side_label, tag, guard, created_us, expires_us) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, "
                "?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, 0, ?21, ?22) on conflict do nothing",
                {row.volume.hex(),
                 row.number,
                 row.root_digest,
                 row.root_place,
                 row.record_pack ? Value(row.record_pack->hex()) : Value(),
                 row.kind,
                 row.message,
                 row.author.hex(),
                 row.author_name,
                 row.entries,
                 row.files,
                 row.bytes,
                 row.base_number,
                 row.fence,
                 row.upload ? Value(row.upload->hex()) : Value(),
                 row.lease ? Value(row.lease->hex()) : Value(),
                 int64_t{row.interim},
                 int64_t{row.side},
                 row.side_label,
                 row.tag,
                 row.created.us,
                 row.expires ? Value(row.expires->us) : Value()}));
  return affected == 1;
}

Result<std::optional<SnapshotRow>> find(Tx& tx, VolumeId volume, int64_t number) {
  CAIRN_TRY(std::optional<Row> row,
            tx.query_one(select("where s.volume_id = ?1 and s.number = ?2"), {volume.hex(), number}));
  if (!row) return std::optional<SnapshotRow>();
  CAIRN_TRY(SnapshotRow snapshot, to_snapshot(*row));
  return std::optional<SnapshotRow>(std::move(snapshot));
}

Result<bool> guard(Tx& tx, VolumeId volume, int64_t number) {
  CAIRN_TRY(int64_t affected, tx.update("update snapshots set guard = guard + 1 where volume_id = ?1 and number = ?2",
                                        {volume.hex(), number}));
  return affected == 1;
}

Result<std::vector<SnapshotRow>> list(Tx& tx, VolumeId volume, int64_t before, bool all, int64_t limit) {
  return many(
      tx,
      select("where s.volume_id = ?1 and s.number < ?2 and (?3 = 1 or (s.interim = 0 and s.side = 0 and s.number > 0)) "
             "order by s.number desc limit ?4"),
      {volume.hex(), before, int64_t{all}, limit});
}

Result<std::vector<SnapshotRow>> list_side(Tx& tx, VolumeId volume, int64_t limit) {
  return many(tx, select("where s.volume_id = ?1 and s.side = 1 order by s.number desc limit ?2"),
              {volume.hex(), limit});
}

Result<std::vector<SnapshotRow>> list_of_store(Tx& tx, StoreId store, VolumeId after_volume, int64_t after_number,
                                               int64_t limit) {
  return many(
      tx,
      select("join volumes v on v.id = s.volume_id where v.store_id = ?1 and "
             "(s.volume_id > ?2 or (s.volume_id = ?2 and s.number > ?3)) order by s.volume_id, s.number limit ?4"),
      {store.hex(), after_volume.hex(), after_number, limit});
}

Status supersede(Tx& tx, VolumeId volume, int64_t number, Time now) {
  CAIRN_CHECK_OK(tx.update("update snapshots set superseded_us = ?3 where volume_id = ?1 and number = ?2",
                           {volume.hex(), number, now.us}));
  return ok();
}

Result<bool> set_tag(Tx& tx, VolumeId volume, int64_t number, const std::string& tag) {
  CAIRN_TRY(int64_t affected,
            tx.update("update snapshots set tag = ?3, guard = guard + 1 where volume_id = ?1 and number = ?2",
                      {volume.hex(), number, tag}));
  return affected == 1;
}

Result<int64_t> retire_interim(Tx& tx, VolumeId volume, Time now) {
  return tx.update(
      retire("interim = 1 and side = 0 and exists (select 1 from snapshots n where n.volume_id = ?1 and n.side = 0 "
             "and n.upload_id = snapshots.upload_id and n.number > snapshots.number)"),
      {volume.hex(), now.us});
}

Result<int64_t> retire_superseded(Tx& tx, VolumeId volume, Time superseded_before, Time now) {
  return tx.update(retire("side = 0 and superseded_us <= ?3"), {volume.hex(), now.us, superseded_before.us});
}

Result<int64_t> retire_beyond(Tx& tx, VolumeId volume, int64_t keep, Time now) {
  return tx.update(
      retire("side = 0 and number <= (select coalesce(max(o.number), -1) from (select number from snapshots "
             "where volume_id = ?1 and side = 0 and interim = 0 order by number desc limit 1 offset ?3) o)"),
      {volume.hex(), now.us, keep});
}

Result<int64_t> retire_side(Tx& tx, VolumeId volume, Time now) {
  return tx.update(retire("side = 1 and expires_us <= ?2"), {volume.hex(), now.us});
}

Result<bool> end_side(Tx& tx, VolumeId volume, int64_t number, Time now) {
  CAIRN_TRY(int64_t affected, tx.update("update snapshots set expires_us = ?3, guard = guard + 1 "
                                        "where volume_id = ?1 and number = ?2 and side = 1 and tag = ''",
                                        {volume.hex(), number, now.us}));
  if (affected != 1) return false;
  CAIRN_CHECK_OK(tx.update(retire("side = 1 and number = ?3"), {volume.hex(), now.us, number}));
  return true;
}

Result<int64_t> remove_of_volume(Tx& tx, VolumeId volume) {
  return tx.update("delete from snapshots where volume_id = ?1", {volume.hex()});
}

}  // namespace cairn::catalog::snapshots
