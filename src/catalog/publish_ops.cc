#include "catalog/publish_ops.h"

namespace cairn::catalog::publish_ops {
namespace {

constexpr char kColumns[] =
    "request_id, body_hash, volume_id, upload_id, changeset_pack_id, kind, message, interim, base_number, state, "
    "snapshot_number, root_digest, entries, files, bytes, side_label, side_reason, error_code, error_message, "
    "error_hint, "
    "created_us";

Result<PublishOpRow> to_op(const Row& row) {
  PublishOpRow op;
  CAIRN_TRY(op.request, row.id<RequestId>(0));
  op.body_hash = row.text(1);
  CAIRN_TRY(op.volume, row.id<VolumeId>(2));
  CAIRN_TRY(op.upload, row.id<UploadId>(3));
  CAIRN_TRY(op.changeset, row.id<PackId>(4));
  op.kind = row.text(5);
  op.message = row.text(6);
  op.interim = row.boolean(7);
  op.base_number = row.maybe_integer(8);
  op.state = row.text(9);
  op.snapshot_number = row.integer(10);
  op.root_digest = row.text(11);
  op.entries = row.integer(12);
  op.files = row.integer(13);
  op.bytes = row.integer(14);
  op.side_label = row.text(15);
  op.side_reason = row.text(16);
  op.error_code = row.text(17);
  op.error_message = row.text(18);
  op.error_hint = row.text(19);
  op.created = row.time(20);
  return op;
}

}  // namespace

Result<bool> insert(Tx& tx, const PublishOpRow& row) {
  CAIRN_TRY(
      int64_t affected,
      tx.update(
          "insert into publish_ops (request_id, body_hash, volume_id, upload_id, changeset_pack_id, kind, message, "
          "interim, base_number, state, snapshot_number, root_digest, entries, files, bytes, side_label, "
          "side_reason, error_code, error_message, error_hint, created_us) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, "
          "?8, ?9, 'running', 0, '', 0, 0, 0, '', '', '', '', '', ?10) on conflict do nothing",
          {row.request.hex(), row.body_hash, row.volume.hex(), row.upload.hex(), row.changeset.hex(), row.kind,
           row.message, int64_t{row.interim}, value_or_null(row.base_number), row.created.us}));
  return affected == 1;
}

Result<std::optional<PublishOpRow>> find(Tx& tx, RequestId request) {
  CAIRN_TRY(
      std::optional<Row> row,
      tx.query_one(std::string("select ") + kColumns + " from publish_ops where request_id = ?1", {request.hex()}));
  if (!row) return std::optional<PublishOpRow>();
  CAIRN_TRY(PublishOpRow op, to_op(*row));
  return std::optional<PublishOpRow>(std::move(op));
}

Result<bool> finish(Tx& tx, const PublishOpRow& row, Time now) {
  CAIRN_TRY(int64_t affected,
            tx.update("update publish_ops set state = 'done', snapshot_number = ?2, root_digest = ?3, entries = ?4, "
                      "files = ?5, bytes = ?6, side_label = ?7, side_reason = ?8, finished_us = ?9 "
                      "where request_id = ?1 and state = 'running'",
                      {row.request.hex(), row.snapshot_number, row.root_digest, row.entries, row.files, row.bytes,
                       row.side_label, row.side_reason, now.us}));
  return affected == 1;
}

Result<bool> fail(Tx& tx, RequestId request, const std::string& code, const std::string& message,
                  const std::string& hint, Time now) {
  CAIRN_TRY(int64_t affected,
            tx.update("update publish_ops set state = 'failed', error_code = ?2, error_message = ?3, error_hint = ?4, "
                      "finished_us = ?5 where request_id = ?1 and state = 'running'",
                      {request.hex(), code, message, hint, now.us}));
  return affected == 1;
}

Result<std::vector<PublishOpRow>> list_running(Tx& tx, int64_t limit) {
  CAIRN_TRY(Rows rows,
            tx.query(std::string("select ") + kColumns +
                         " from publish_ops where state = 'running' order by created_us, request_id limit ?1",
                     {limit}));
  std::vector<PublishOpRow> ops;
  for (const Row& row : rows) {
    CAIRN_TRY(PublishOpRow op, to_op(row));
    ops.push_back(std::move(op));
  }
  return ops;
}

Result<int64_t> remove_finished(Tx& tx, Time before, int64_t limit) {
  return tx.update(
      "delete from publish_ops where request_id in (select o.request_id from publish_ops o where "
      "o.state <> 'running' and o.finished_us < ?1 order by o.request_id limit ?2)",
      {before.us, limit});
}

Status remove_of_volume(Tx& tx, VolumeId volume) {
  CAIRN_CHECK_OK(tx.update("delete from publish_ops where volume_id = ?1", {volume.hex()}));
  return ok();
}

}  // namespace cairn::catalog::publish_ops
