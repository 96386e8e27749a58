#include "catalog/attempts.h"

namespace cairn::catalog {
namespace {

#define CAIRN_ATTEMPT_COLUMNS \
  "id, run_id, number, node_id, state, secret_hash, log_seq, opened_us, started_us, seen_lease_us, ended_us"

Value time_or_null(const std::optional<Time>& time) { return time ? Value(time->us) : Value(); }

template <class IdType>
Value id_or_null(const std::optional<IdType>& id) {
  return id ? Value(id->hex()) : Value();
}

Result<AttemptRow> attempt_of(const Row& row) {
  AttemptRow attempt;
  CAIRN_TRY(attempt.id, row.id<AttemptId>(0));
  CAIRN_TRY(attempt.run, row.id<RunId>(1));
  attempt.number = row.integer(2);
  CAIRN_TRY(attempt.node, row.id<NodeId>(3));
  attempt.state = row.text(4);
  attempt.secret_hash = row.text(5);
  attempt.log_seq = row.integer(6);
  attempt.opened_at = row.time(7);
  attempt.started_at = row.maybe_time(8);
  attempt.seen_lease = LeaseTime{row.integer(9)};
  attempt.ended_at = row.maybe_time(10);
  return attempt;
}

Result<std::optional<AttemptRow>> maybe_attempt(const std::optional<Row>& row) {
  if (!row) return std::optional<AttemptRow>();
  CAIRN_TRY(AttemptRow attempt, attempt_of(*row));
  return std::optional<AttemptRow>(std::move(attempt));
}

Result<std::vector<AttemptRow>> attempts_of(const Rows& rows) {
  std::vector<AttemptRow> attempts;
  attempts.reserve(rows.size());
  for (const Row& row : rows) {
    CAIRN_TRY(AttemptRow attempt, attempt_of(row));
    attempts.push_back(std::move(attempt));
  }
  return attempts;
}

Result<bool> changed_one(Result<int64_t> affected) {
  if (!affected) return std::move(affected).error();
  return *affected == 1;
}

}  // namespace

Status insert_attempt(Tx& tx, const AttemptRow& attempt) {
  auto done = tx.update("insert into attempts (" CAIRN_ATTEMPT_COLUMNS
                        ") values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
                        {attempt.id.hex(), attempt.run.hex(), attempt.number, attempt.node.hex(), attempt.state,
                         attempt.secret_hash, attempt.log_seq, attempt.opened_at.us, time_or_null(attempt.started_at),
                         attempt.seen_lease.us, time_or_null(attempt.ended_at)});
  if (!done) return std::move(done).error();
  return ok();
}

Result<std::optional<AttemptRow>> find_attempt(Tx& tx, AttemptId id) {
  CAIRN_TRY(std::optional<Row> row, tx.query_one("select " CAIRN_ATTEMPT_COLUMNS " from attempts where id = ?1", {id.hex()}));
  return maybe_attempt(row);
}

Result<std::optional<AttemptRow>> newest_attempt(Tx& tx, RunId run) {
  CAIRN_TRY(std::optional<Row> row,
            tx.query_one("select " CAIRN_ATTEMPT_COLUMNS " from attempts where run_id = ?1 order by number desc limit 1",
                         {run.hex()}));
  return maybe_attempt(row);
}

Result<std::vector<AttemptRow>> open_attempts(Tx& tx, NodeId node) {
  CAIRN_TRY(Rows rows, tx.query("select " CAIRN_ATTEMPT_COLUMNS
                                " from attempts where node_id = ?1 and state <> 'ENDED' order by opened_us, id limit 10000",
                                {node.hex()}));
  return attempts_of(rows);
}

Result<std::vector<AttemptRow>> silent_attempts(Tx& tx, LeaseTime before) {
  CAIRN_TRY(Rows rows, tx.query("select " CAIRN_ATTEMPT_COLUMNS
                                " from attempts where state in ('OFFERED', 'CREATING', 'RUNNING', 'SYNCING') and "
                                "seen_lease_us < ?1 order by opened_us, id limit 1000",
                                {before.us}));
  return attempts_of(rows);
}

Result<bool> move_attempt(Tx& tx, AttemptId id, std::string_view from, std::string_view to, std::optional<Time> started_at,
                          std::optional<Time> ended_at) {
  return changed_one(tx.update("update attempts set state = ?3, started_us = coalesce(started_us, ?4), "
                               "ended_us = coalesce(?5, ended_us) where id = ?1 and state = ?2",
                               {id.hex(), std::string(from), std::string(to), time_or_null(started_at),
                                time_or_null(ended_at)}));
}

Result<bool> set_attempt_secret(Tx& tx, AttemptId id, std::string_view secret_hash) {
  return changed_one(tx.update("update attempts set secret_hash = ?2 where id = ?1 and state = 'OFFERED'",
                               {id.hex(), std::string(secret_hash)}));
}

Result<bool> touch_attempt(Tx& tx, AttemptId id, LeaseTime lease_now) {
  return changed_one(tx.update("update attempts set seen_lease_us = ?2 where id = ?1", {id.hex(), lease_now.us}));
}

Result<bool> set_attempt_log_seq(Tx& tx, AttemptId id, int64_t from, int64_t to) {
  return changed_one(
      tx.update("update attempts set log_seq = ?3 where id = ?1 and log_seq = ?2", {id.hex(), from, to}));
}

Status set_attempt_grants(Tx& tx, AttemptId id, const std::vector<AttemptGrantRow>& grants) {
  auto removed = tx.update("delete from attempt_grants where attempt_id = ?1", {id.hex()});
  if (!removed) return std::move(removed).error();
  for (const AttemptGrantRow& grant : grants) {
    auto done = tx.update(
        "insert into attempt_grants (attempt_id, position, volume_id, upload_id, lease_id, pin_id) values "
        "(?1, ?2, ?3, ?4, ?5, ?6)",
        {id.hex(), grant.position, grant.volume.hex(), id_or_null(grant.upload), id_or_null(grant.lease),
         id_or_null(grant.pin)});
    if (!done) return std::move(done).error();
  }
  return ok();
}

Result<std::vector<AttemptGrantRow>> attempt_grants(Tx& tx, AttemptId id) {
  CAIRN_TRY(Rows rows, tx.query("select position, volume_id, upload_id, lease_id, pin_id from attempt_grants where "
                                "attempt_id = ?1 order by position",
                                {id.hex()}));
  std::vector<AttemptGrantRow> grants;
  for (const Row& row : rows) {
    AttemptGrantRow grant;
    grant.position = row.integer(0);
    CAIRN_TRY(grant.volume, row.id<VolumeId>(1));
    if (!row.is_null(2)) {
      CAIRN_TRY(UploadId upload, row.id<UploadId>(2));
      grant.upload = upload;
    }
    if (!row.is_null(3)) {
      CAIRN_TRY(LeaseId lease, row.id<LeaseId>(3));
      grant.lease = lease;
    }
    if (!row.is_null(4)) {
      CAIRN_TRY(PinId pin, row.id<PinId>(4));
      grant.pin = pin;
    }
    grants.push_back(grant);
  }
  return grants;
}

}  // namespace cairn::catalog
