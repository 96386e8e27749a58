#include "catalog/runs.h"

#include "codec/hex.h"

namespace cairn::catalog {
namespace {

#define CAIRN_RUN_COLUMNS                                                                                             \
  "id, kind, state, owner_id, user_name, command, environment, engine, config, config_name, gpu, gpu_count, "         \
  "gpu_type, wanted_node, queue, sync_final_only, grace_seconds, node_id, attempt, stop_requested, "                  \
  "stop_grace_seconds, exit_code, reason, message, saved_step, saved_snapshot, saved_us, pending_files, "             \
  "pending_bytes, safe_to_stop, log_seq, created_us, started_us, ended_us"

constexpr char kUnfinished[] = "('QUEUED', 'PENDING', 'CREATING', 'RUNNING', 'SYNCING')";
constexpr char kPlaced[] = "('PENDING', 'CREATING', 'RUNNING', 'SYNCING')";

// An argument may be empty and may hold any byte: each becomes 'x' and its hex, with blanks between them.
std::string encode_words(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += ' ';
    text += 'x';
    text += codec::hex_encode(word);
  }
  return text;
}

Result<std::vector<std::string>> decode_words(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    size_t blank = std::min(text.find(' '), text.size());
    std::string_view word = text.substr(0, blank);
    text.remove_prefix(std::min(blank + 1, text.size()));
    std::optional<std::string> bytes = word.starts_with('x') ? codec::hex_decode_text(word.substr(1)) : std::nullopt;
    if (!bytes) return Error(Code::kDataCorrupt, "the catalog holds a list of words that cannot be read");
    words.push_back(*std::move(bytes));
  }
  return words;
}

std::string encode_map(const std::map<std::string, std::string>& map) {
  std::vector<std::string> words;
  for (const auto& [name, value] : map) {
    words.push_back(name);
    words.push_back(value);
  }
  return encode_words(words);
}

Result<std::map<std::string, std::string>> decode_map(std::string_view text) {
  CAIRN_TRY(std::vector<std::string> words, decode_words(text));
  if (words.size() % 2 != 0) return Error(Code::kDataCorrupt, "the catalog holds a map of words that cannot be read");
  std::map<std::string, std::string> map;
  for (size_t i = 0; i < words.size(); i += 2) map[words[i]] = words[i + 1];
  return map;
}

Result<RunRow> run_of(const Row& row) {
  RunRow run;
  CAIRN_TRY(run.id, row.id<RunId>(0));
  run.kind = row.text(1);
  run.state = row.text(2);
  run.owner_id = row.text(3);
  run.user_name = row.text(4);
  CAIRN_TRY(run.command, decode_words(row.text(5)));
  CAIRN_TRY(run.environment, decode_map(row.text(6)));
  run.engine = row.text(7);
  run.config = row.text(8);
  run.config_name = row.text(9);
  run.gpu = row.text(10);
  run.gpu_count = row.integer(11);
  run.gpu_type = row.text(12);
  run.wanted_node = row.text(13);
  run.queue = row.boolean(14);
  run.sync_final_only = row.boolean(15);
  run.grace_seconds = row.integer(16);
  if (!row.is_null(17)) {
    CAIRN_TRY(NodeId node, row.id<NodeId>(17));
    run.node = node;
  }
  run.attempt = row.integer(18);
  run.stop_requested = row.boolean(19);
  run.stop_grace_seconds = row.integer(20);
  run.exit_code = row.maybe_integer(21);
  run.reason = row.text(22);
  run.message = row.text(23);
  run.saved_step = row.maybe_integer(24);
  run.saved_snapshot = row.maybe_integer(25);
  run.saved_at = row.maybe_time(26);
  run.pending_files = row.integer(27);
  run.pending_bytes = row.integer(28);
  run.safe_to_stop = row.boolean(29);
  run.log_seq = row.integer(30);
  run.created_at = row.time(31);
  run.started_at = row.maybe_time(32);
  run.ended_at = row.maybe_time(33);
  return run;
}

Result<std::vector<RunRow>> runs_of(const Rows& rows) {
  std::vector<RunRow> runs;
  runs.reserve(rows.size());
  for (const Row& row : rows) {
    CAIRN_TRY(RunRow run, run_of(row));
    runs.push_back(std::move(run));
  }
  return runs;
}

Value time_or_null(const std::optional<Time>& time) { return time ? Value(time->us) : Value(); }

Result<bool> changed_one(Result<int64_t> affected) {
  if (!affected) return std::move(affected).error();
  return *affected == 1;
}

}  // namespace

Status insert_run(Tx& tx, const RunRow& run, const std::vector<RunMountRow>& mounts) {
  auto done = tx.update(
      "insert into runs (" CAIRN_RUN_COLUMNS
      ", logs_removed) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, "
      "?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34, 0)",
      {run.id.hex(), run.kind, run.state, run.owner_id, run.user_name, encode_words(run.command), encode_map(run.environment),
       run.engine, run.config, run.config_name, run.gpu, run.gpu_count, run.gpu_type, run.wanted_node, int64_t{run.queue},
       int64_t{run.sync_final_only}, run.grace_seconds, run.node ? Value(run.node->hex()) : Value(), run.attempt,
       int64_t{run.stop_requested}, run.stop_grace_seconds, value_or_null(run.exit_code), run.reason, run.message,
       value_or_null(run.saved_step), value_or_null(run.saved_snapshot), time_or_null(run.saved_at), run.pending_files,
       run.pending_bytes, int64_t{run.safe_to_stop}, run.log_seq, run.created_at.us, time_or_null(run.started_at),
       time_or_null(run.ended_at)});
  if (!done) return std::move(done).error();
  int64_t position = 0;
  for (const RunMountRow& mount : mounts) {
    auto inserted = tx.update(
        "insert into run_mounts (run_id, position, volume_id, volume_name, directory, is_primary, read_only, shared, "
        "workspace, snapshot) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        {run.id.hex(), position++, mount.volume.hex(), mount.volume_name, mount.directory, int64_t{mount.primary},
         int64_t{mount.read_only}, int64_t{mount.shared}, int64_t{mount.workspace}, value_or_null(mount.snapshot)});
    if (!inserted) return std::move(inserted).error();
  }
  return ok();
}

Result<std::optional<RunRow>> find_run(Tx& tx, RunId id) {
  CAIRN_TRY(std::optional<Row> row, tx.query_one("select " CAIRN_RUN_COLUMNS " from runs where id = ?1", {id.hex()}));
  if (!row) return std::optional<RunRow>();
  CAIRN_TRY(RunRow run, run_of(*row));
  return std::optional<RunRow>(std::move(run));
}

Result<std::vector<RunMountRow>> run_mounts(Tx& tx, RunId id) {
  CAIRN_TRY(Rows rows, tx.query("select volume_id, volume_name, directory, is_primary, read_only, shared, workspace, snapshot "
                                "from run_mounts where run_id = ?1 order by position",
                                {id.hex()}));
  std::vector<RunMountRow> mounts;
  for (const Row& row : rows) {
    RunMountRow mount;
    CAIRN_TRY(mount.volume, row.id<VolumeId>(0));
    mount.volume_name = row.text(1);
    mount.directory = row.text(2);
    mount.primary = row.boolean(3);
    mount.read_only = row.boolean(4);
    mount.shared = row.boolean(5);
    mount.workspace = row.boolean(6);
    mount.snapshot = row.maybe_integer(7);
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

Result<std::vector<RunRow>> list_runs(Tx& tx, const RunFilter& filter) {
  Time before{INT64_MAX};
  std::string before_id;
  if (filter.before) {
    before = filter.before->first;
    before_id = filter.before->second.hex();
  }
  CAIRN_TRY(Rows rows, tx.query("select " CAIRN_RUN_COLUMNS
                                " from runs where (?1 = '' or owner_id = ?1) and (?2 = '' or state = ?2) and "
                                "(created_us < ?3 or (created_us = ?3 and id < ?4)) order by created_us desc, id desc limit ?5",
                                {filter.owner_id, filter.state, before.us, before_id, filter.limit}));
  return runs_of(rows);
}

Result<std::vector<RunRow>> runs_in_state(Tx& tx, std::string_view state, int64_t limit) {
  CAIRN_TRY(Rows rows, tx.query("select " CAIRN_RUN_COLUMNS " from runs where state = ?1 order by created_us, id limit ?2",
                                {std::string(state), limit}));
  return runs_of(rows);
}

Result<std::vector<RunRow>> runs_on_node(Tx& tx, NodeId node) {
  static const std::string kSql = std::string("select " CAIRN_RUN_COLUMNS " from runs where node_id = ?1 and state in ") +
                                  kPlaced + " order by created_us, id limit 10000";
  CAIRN_TRY(Rows rows, tx.query(kSql, {node.hex()}));
  return runs_of(rows);
}

Result<std::optional<RunRow>> run_writing(Tx& tx, VolumeId volume, RunId except, bool only_placed) {
  static const std::string kSql =
      "select run_id from run_mounts m join runs r on r.id = m.run_id where m.volume_id = ?1 and m.read_only = 0 and "
      "m.workspace = 0 and r.id <> ?2 and r.state in ";
  static const std::string kAny = kSql + kUnfinished + " order by r.created_us, r.id limit 1";
  static const std::string kOnlyPlaced = kSql + kPlaced + " order by r.created_us, r.id limit 1";
  CAIRN_TRY(std::optional<Row> row, tx.query_one(only_placed ? kOnlyPlaced : kAny, {volume.hex(), except.hex()}));
  if (!row) return std::optional<RunRow>();
  CAIRN_TRY(RunId id, row->id<RunId>(0));
  return find_run(tx, id);
}

Result<std::vector<RunRow>> runs_using(Tx& tx, VolumeId volume) {
  static const std::string kSql =
      std::string("select " CAIRN_RUN_COLUMNS
                  " from runs where id in (select run_id from run_mounts where volume_id = ?1) and state in ") +
      kUnfinished + " order by created_us, id limit 1000";
  CAIRN_TRY(Rows rows, tx.query(kSql, {volume.hex()}));
  return runs_of(rows);
}

Result<bool> move_run(Tx& tx, RunId id, const RunMove& move) {
  return changed_one(tx.update(
      "update runs set state = ?3, reason = coalesce(?4, reason), started_us = coalesce(started_us, ?5), "
      "ended_us = coalesce(?6, ended_us), exit_code = coalesce(?7, exit_code) where id = ?1 and state = ?2",
      {id.hex(), std::string(move.from), std::string(move.to), value_or_null(move.reason), time_or_null(move.started_at),
       time_or_null(move.ended_at), value_or_null(move.exit_code)}));
}

Result<bool> place_run(Tx& tx, RunId id, std::optional<NodeId> node, int64_t attempt) {
  return changed_one(tx.update("update runs set node_id = ?2, attempt = ?3 where id = ?1",
                               {id.hex(), node ? Value(node->hex()) : Value(), attempt}));
}

Result<bool> request_run_stop(Tx& tx, RunId id, int64_t grace_seconds) {
  return changed_one(tx.update("update runs set stop_requested = 1, stop_grace_seconds = ?2 where id = ?1",
                               {id.hex(), grace_seconds}));
}

Status set_run_reason(Tx& tx, RunId id, const std::string& reason) {
  auto done = tx.update("update runs set reason = ?2 where id = ?1 and reason <> ?2", {id.hex(), reason});
  if (!done) return std::move(done).error();
  return ok();
}

Result<bool> update_run_progress(Tx& tx, RunId id, const RunProgress& progress) {
  return changed_one(tx.update(
      "update runs set message = ?2, pending_files = ?3, pending_bytes = ?4, safe_to_stop = ?5, "
      "saved_step = coalesce(?6, saved_step), saved_snapshot = coalesce(?7, saved_snapshot), "
      "saved_us = coalesce(?8, saved_us) where id = ?1",
      {id.hex(), progress.message, progress.pending_files, progress.pending_bytes, int64_t{progress.safe_to_stop},
       value_or_null(progress.saved_step), value_or_null(progress.saved_snapshot), time_or_null(progress.saved_at)}));
}

}  // namespace cairn::catalog
