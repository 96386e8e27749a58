#include "catalog/run_logs.h"

namespace cairn::catalog {

Result<int64_t> append_log_lines(Tx& tx, RunId run, int64_t attempt, const std::vector<LogRow>& lines) {
  CAIRN_TRY(std::optional<Row> row, tx.query_one("select log_seq from runs where id = ?1", {run.hex()}));
  if (!row) return Error(Code::kRunNotFound, "no run " + run.hex());
  int64_t seq = row->integer(0);
  // The counter is the claim: of two writers one matches no row, or is turned back by the engine.
  CAIRN_TRY(int64_t claimed, tx.update("update runs set log_seq = ?3 where id = ?1 and log_seq = ?2",
                                       {run.hex(), seq, seq + static_cast<int64_t>(lines.size())}));
  if (claimed != 1) return Error(Code::kBusy, "another writer appends to the log of run " + run.hex());
  for (const LogRow& line : lines) {
    CAIRN_TRY([[maybe_unused]] int64_t done,
              tx.update("insert into run_logs (run_id, seq, attempt, component, at_us, line) values (?1, ?2, ?3, ?4, ?5, ?6)",
                        {run.hex(), ++seq, attempt, line.component, line.at.us, line.line}));
  }
  return seq;
}

Result<std::vector<LogRow>> read_log_lines(Tx& tx, RunId run, int64_t after, const std::string& component, int64_t limit) {
  CAIRN_TRY(Rows rows, tx.query("select seq, attempt, component, at_us, line from run_logs where run_id = ?1 and seq > ?2 and "
                                "(?3 = '' or component = ?3) order by seq limit ?4",
                                {run.hex(), after, component, limit}));
  std::vector<LogRow> lines;
  lines.reserve(rows.size());
  for (const Row& row : rows) {
    lines.push_back(LogRow{row.integer(0), row.integer(1), row.text(2), row.time(3), row.text(4)});
  }
  return lines;
}

Result<int64_t> trim_log_lines(Tx& tx, RunId run, int64_t keep) {
  return tx.update(
      "delete from run_logs where run_id = ?1 and seq <= (select log_seq from runs where id = ?1) - ?2",
      {run.hex(), keep});
}

Result<int64_t> remove_old_logs(Tx& tx, Time before, int64_t runs_max) {
  CAIRN_TRY(Rows rows, tx.query("select id from runs where logs_removed = 0 and ended_us is not null and ended_us < ?1 "
                                "order by ended_us limit ?2",
                                {before.us, runs_max}));
  for (const Row& row : rows) {
    CAIRN_TRY([[maybe_unused]] int64_t removed, tx.update("delete from run_logs where run_id = ?1", {row.text(0)}));
    CAIRN_TRY([[maybe_unused]] int64_t marked, tx.update("update runs set logs_removed = 1 where id = ?1", {row.text(0)}));
  }
  return static_cast<int64_t>(rows.size());
}

}  // namespace cairn::catalog
