#include "catalog/volumes.h"

namespace cairn::catalog::volumes {
namespace {

constexpr char kColumns[] =
    "id, owner_user_id, store_id, name, kind, state, size_bytes, history, head_number, last_number, head_entries, "
    "head_files, "
    "head_bytes, fence, created_by, created_us, trashed_us, purge_at_us, delete_error";

std::string select(const std::string& rest) {
  return std::string("select ") + kColumns + " from volumes " + rest;
}

Result<VolumeRow> to_volume(const Row& row) {
  VolumeRow volume;
  CAIRN_TRY(volume.id, row.id<VolumeId>(0));
  CAIRN_TRY(volume.owner, row.id<UserId>(1));
  CAIRN_TRY(volume.store, row.id<StoreId>(2));
  volume.name = row.text(3);
  volume.kind = row.text(4);
  volume.state = row.text(5);
  volume.size_bytes = row.integer(6);
  volume.history = row.text(7);
  volume.head_number = row.integer(8);
  volume.last_number = row.integer(9);
  volume.head_entries = row.integer(10);
  volume.head_files = row.integer(11);
  volume.head_bytes = row.integer(12);
  volume.fence = row.integer(13);
  volume.created_by = row.text(14);
  volume.created = row.time(15);
  volume.trashed = row.maybe_time(16);
  volume.purge_at = row.maybe_time(17);
  volume.delete_error = row.maybe_text(18).value_or("");
  return volume;
}

Result<std::optional<VolumeRow>> one(Tx& tx, const std::string& sql, const Values& values) {
  CAIRN_TRY(std::optional<Row> row, tx.query_one(sql, values));
  if (!row) return std::optional<VolumeRow>();
  CAIRN_TRY(VolumeRow volume, to_volume(*row));
  return std::optional<VolumeRow>(std::move(volume));
}

Result<std::vector<VolumeRow>> many(Tx& tx, const std::string& sql, const Values& values) {
  CAIRN_TRY(Rows rows, tx.query(sql, values));
  std::vector<VolumeRow> volumes;
  volumes.reserve(rows.size());
  for (const Row& row : rows) {
    CAIRN_TRY(VolumeRow volume, to_volume(row));
    volumes.push_back(std::move(volume));
  }
  return volumes;
}

Result<bool> hits(Tx& tx, std::string_view sql, const Values& values) {
  CAIRN_TRY(int64_t affected, tx.update(sql, values));
  return affected == 1;
}

}  // namespace

Result<bool> insert(Tx& tx, const VolumeRow& row) {
  return hits(tx,
              "insert into volumes (id, owner_user_id, store_id, name, kind, state, size_bytes, history, head_number, "
              "last_number, head_entries, head_files, head_bytes, fence, created_by, created_us) "
              "values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16) on conflict do nothing",
              {row.id.hex(), row.owner.hex(), row.store.hex(), row.name, row.kind, row.state, row.size_bytes,
               row.history, row.head_number, row.last_number, row.head_entries, row.head_files, row.head_bytes,
               row.fence, row.created_by, row.created.us});
}

Result<std::optional<VolumeRow>> find(Tx& tx, VolumeId id) {
  return one(tx, select("where id = ?1"), {id.hex()});
}

Result<std::optional<VolumeRow>> find_by_name(Tx& tx, UserId owner, const std::string& name) {
  return one(tx, select("where owner_user_id = ?1 and name = ?2 and state = 'created'"), {owner.hex(), name});
}

Result<std::optional<VolumeRow>> find_trashed(Tx& tx, UserId owner, const std::string& name) {
  return one(
      tx, select("where owner_user_id = ?1 and name = ?2 and state = 'trashed' order by trashed_us desc, id limit 1"),
      {owner.hex(), name});
}

Result<std::vector<VolumeRow>> list(Tx& tx, UserId owner, const std::string& after_name, VolumeId after_id,
                                    int64_t limit) {
  return many(tx,
              select("where owner_user_id = ?1 and kind = 'user' and (name > ?2 or (name = ?2 and id > ?3)) "
                     "order by name, id limit ?4"),
              {owner.hex(), after_name, after_id.hex(), limit});
}

Result<std::vector<VolumeRow>> list_in_state(Tx& tx, const std::string& state, VolumeId after, int64_t limit) {
  return many(tx, select("where state = ?1 and id > ?2 order by id limit ?3"), {state, after.hex(), limit});
}

Result<std::vector<VolumeRow>> list_workspaces(Tx& tx, Time before, VolumeId after, int64_t limit) {
  return many(tx,
              select("where kind = 'workspace' and state = 'created' and created_us < ?1 and id > ?2 order by id limit ?3"),
              {before.us, after.hex(), limit});
}

Result<std::vector<VolumeId>> list_purge_due(Tx& tx, Time now, int64_t limit) {
  CAIRN_TRY(Rows rows,
            tx.query("select id from volumes where state = 'trashed' and purge_at_us <= ?1 order by id limit ?2",
                     {now.us, limit}));
  std::vector<VolumeId> ids;
  for (const Row& row : rows) {
    CAIRN_TRY(VolumeId id, row.id<VolumeId>(0));
    ids.push_back(id);
  }
  return ids;
}

Result<bool> grow(Tx& tx, VolumeId id, int64_t size_bytes) {
  return hits(tx, "update volumes set size_bytes = ?2 where id = ?1 and state = 'created' and size_bytes <= ?2",
              {id.hex(), size_bytes});
}

Result<bool> set_history(Tx& tx, VolumeId id, const std::string& history) {
  return hits(tx, "update volumes set history = ?2 where id = ?1 and state = 'created'", {id.hex(), history});
}

Result<std::optional<int64_t>> next_fence(Tx& tx, VolumeId id) {
  CAIRN_TRY(std::optional<Row> row,
            tx.query_one("update volumes set fence = fence + 1 where id = ?1 and state = 'created' returning fence",
                         {id.hex()}));
  return row ? std::optional<int64_t>(row->integer(0)) : std::optional<int64_t>();
}

Result<bool> trash(Tx& tx, VolumeId id, Time now, Time purge_at) {
  return hits(
      tx, "update volumes set state = 'trashed', trashed_us = ?2, purge_at_us = ?3 where id = ?1 and state = 'created'",
      {id.hex(), now.us, purge_at.us});
}

Result<bool> undelete(Tx& tx, VolumeId id, const std::string& name) {
  return hits(tx,
              "update volumes set state = 'created', name = ?2, trashed_us = null, purge_at_us = null "
              "where id = ?1 and state = 'trashed' and not exists (select 1 from volumes o where o.owner_user_id = "
              "volumes.owner_user_id and o.name = ?2 and o.state = 'created')",
              {id.hex(), name});
}

Result<bool> begin_deleting(Tx& tx, VolumeId id) {
  return hits(tx, "update volumes set state = 'deleting' where id = ?1 and state <> 'deleting'", {id.hex()});
}

Result<bool> delete_failed(Tx& tx, VolumeId id, const std::string& error) {
  return hits(tx,
              "update volumes set state = 'delete_failed', delete_error = ?2 "
              "where id = ?1 and state in ('deleting', 'delete_failed')",
              {id.hex(), error});
}

Result<bool> remove(Tx& tx, VolumeId id) {
  return hits(tx, "delete from volumes where id = ?1 and state in ('deleting', 'delete_failed')", {id.hex()});
}

Result<bool> swap_head(Tx& tx, VolumeId id, int64_t base, int64_t number, const HeadCounts& counts) {
  return hits(
      tx,
      "update volumes set head_number = ?3, last_number = ?3, head_entries = ?4, head_files = ?5, head_bytes = ?6 "
      "where id = ?1 and state = 'created' and head_number = ?2 and last_number < ?3 and size_bytes >= ?6",
      {id.hex(), base, number, counts.entries, counts.files, counts.bytes});
}

Result<bool> take_number(Tx& tx, VolumeId id, int64_t number) {
  return hits(tx, "update volumes set last_number = ?2 where id = ?1 and state = 'created' and last_number < ?2",
              {id.hex(), number});
}

Result<bool> claim_publishing(Tx& tx, VolumeId id, RequestId request, const std::string& claim, LeaseTime until) {
  return hits(
      tx,
      std::string(
          "update volumes set publishing_request_id = ?2, publishing_claim = ?3, publishing_until_lease_us = ?4 "
          "where id = ?1 and (publishing_claim is null or publishing_until_lease_us <= ") +
          kLeaseNowSql + ")",
      {id.hex(), request.hex(), claim, until.us});
}

Result<bool> renew_publishing(Tx& tx, VolumeId id, const std::string& claim, LeaseTime until) {
  return hits(tx, "update volumes set publishing_until_lease_us = ?3 where id = ?1 and publishing_claim = ?2",
              {id.hex(), claim, until.us});
}

Status release_publishing(Tx& tx, VolumeId id, const std::string& claim) {
  CAIRN_CHECK_OK(
      tx.update("update volumes set publishing_request_id = null, publishing_claim = null, "
                "publishing_until_lease_us = null where id = ?1 and publishing_claim = ?2",
                {id.hex(), claim}));
  return ok();
}

Status drop_publishing_claims(Tx& tx) {
  CAIRN_CHECK_OK(
      tx.update("update volumes set publishing_request_id = null, publishing_claim = null, "
                "publishing_until_lease_us = null where publishing_claim is not null"));
  return ok();
}

Status raise_counters(Tx& tx, StoreId store, int64_t by) {
  CAIRN_CHECK_OK(tx.update("update volumes set fence = fence + ?2, last_number = last_number + ?2 where store_id = ?1",
                           {store.hex(), by}));
  return ok();
}

}  // namespace cairn::catalog::volumes
