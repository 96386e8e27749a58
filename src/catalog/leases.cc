#include "catalog/leases.h"

namespace cairn::catalog::leases {
namespace {

constexpr char kColumns[] =
    "id, volume_id, mode, kind, holder, user_id, user_name, source, secret_hash, fence, state, since_us, seen_us, "
    "seen_lease_us, expires_lease_us, end_reason";

Result<LeaseRow> to_lease(const Row& row) {
  LeaseRow lease;
  CAIRN_TRY(lease.id, row.id<LeaseId>(0));
  CAIRN_TRY(lease.volume, row.id<VolumeId>(1));
  lease.mode = row.text(2);
  lease.kind = row.text(3);
  lease.holder = row.text(4);
  CAIRN_TRY(lease.user, row.id<UserId>(5));
  lease.user_name = row.text(6);
  lease.source = row.text(7);
  lease.secret_hash = row.text(8);
  lease.fence = row.integer(9);
  lease.state = row.text(10);
  lease.since = row.time(11);
  lease.seen = row.time(12);
  lease.seen_lease = LeaseTime{row.integer(13)};
  lease.expires_lease = LeaseTime{row.integer(14)};
  lease.end_reason = row.maybe_text(15).value_or("");
  return lease;
}

}  // namespace

Status insert(Tx& tx, const LeaseRow& row) {
  CAIRN_TRY(
      int64_t affected,
      tx.update(
          "insert into leases (id, volume_id, mode, kind, holder, user_id, user_name, source, secret_hash, fence, "
          "state, since_us, seen_us, seen_lease_us, expires_lease_us) "
          "values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 'current', ?11, ?12, ?13, ?14)",
          {row.id.hex(), row.volume.hex(), row.mode, row.kind, row.holder, row.user.hex(), row.user_name, row.source,
           row.secret_hash, row.fence, row.since.us, row.seen.us, row.seen_lease.us, row.expires_lease.us}));
  if (affected != 1) return Error(Code::kInternal, "the lease's row was not inserted");
  return ok();
}

Result<std::optional<LeaseRow>> find(Tx& tx, LeaseId id) {
  CAIRN_TRY(std::optional<Row> row,
            tx.query_one(std::string("select ") + kColumns + " from leases where id = ?1", {id.hex()}));
  if (!row) return std::optional<LeaseRow>();
  CAIRN_TRY(LeaseRow lease, to_lease(*row));
  return std::optional<LeaseRow>(std::move(lease));
}

Result<std::vector<LeaseRow>> list_current(Tx& tx, VolumeId volume) {
  CAIRN_TRY(Rows rows, tx.query(std::string("select ") + kColumns +
                                    " from leases where volume_id = ?1 and state = 'current' order by fence desc",
                                {volume.hex()}));
  std::vector<LeaseRow> leases;
  for (const Row& row : rows) {
    CAIRN_TRY(LeaseRow lease, to_lease(row));
    leases.push_back(std::move(lease));
  }
  return leases;
}

Result<bool> heartbeat(Tx& tx, LeaseId id, const std::string& secret_hash, Time now, LeaseTime lease_now,
                       LeaseTime expires) {
  CAIRN_TRY(int64_t affected, tx.update("update leases set seen_us = ?3, seen_lease_us = ?4, expires_lease_us = ?5 "
                                        "where id = ?1 and state = 'current' and secret_hash = ?2",
                                        {id.hex(), secret_hash, now.us, lease_now.us, expires.us}));
  return affected == 1;
}

Result<bool> end(Tx& tx, LeaseId id, Time now, const std::string& reason) {
  CAIRN_TRY(int64_t affected, tx.update("update leases set state = 'ended', ended_us = ?2, end_reason = ?3 "
                                        "where id = ?1 and state = 'current'",
                                        {id.hex(), now.us, reason}));
  return affected == 1;
}

Result<int64_t> end_all(Tx& tx, VolumeId volume, Time now, const std::string& reason) {
  return tx.update(
      "update leases set state = 'ended', ended_us = ?2, end_reason = ?3 "
      "where volume_id = ?1 and state = 'current'",
      {volume.hex(), now.us, reason});
}

Result<bool> confirm(Tx& tx, LeaseId id, int64_t fence, Time now, LeaseTime lease_now, LeaseTime expires) {
  CAIRN_TRY(int64_t affected, tx.update("update leases set seen_us = ?3, seen_lease_us = ?4, expires_lease_us = ?5 "
                                        "where id = ?1 and state = 'current' and fence = ?2",
                                        {id.hex(), fence, now.us, lease_now.us, expires.us}));
  return affected == 1;
}

Result<int64_t> end_of_store(Tx& tx, StoreId store, Time now, const std::string& reason) {
  return tx.update(
      "update leases set state = 'ended', ended_us = ?2, end_reason = ?3 where state = 'current' and volume_id in "
      "(select v.id from volumes v where v.store_id = ?1)",
      {store.hex(), now.us, reason});
}

Status remove_of_volume(Tx& tx, VolumeId volume) {
  CAIRN_CHECK_OK(tx.update("delete from leases where volume_id = ?1", {volume.hex()}));
  return ok();
}

Result<int64_t> remove_ended(Tx& tx, Time before, int64_t limit) {
  return tx.update(
      "delete from leases where id in (select l.id from leases l where l.state = 'ended' and l.ended_us < ?1 "
      "and not exists (select 1 from uploads u where u.lease_id = l.id) order by l.id limit ?2)",
      {before.us, limit});
}

}  // namespace cairn::catalog::leases
