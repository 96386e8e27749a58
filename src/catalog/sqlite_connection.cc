#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cerrno>
#include <unordered_map>

#include <fmt/format.h>

#include "catalog/connection.h"
#include "catalog/dialect.h"

namespace cairn::catalog {

namespace {

constexpr int kBusyTimeoutMs = 5000;
constexpr int kProgressSteps = 20'000;  // virtual machine steps between two looks at the deadline

// Resets the statement whatever happens: one left open keeps its snapshot after COMMIT and makes later writers fail.
class ResetGuard {
 public:
  explicit ResetGuard(sqlite3_stmt* statement) : statement_(statement) {}
  ~ResetGuard() {
    sqlite3_reset(statement_);
    sqlite3_clear_bindings(statement_);
  }
  ResetGuard(const ResetGuard&) = delete;
  ResetGuard& operator=(const ResetGuard&) = delete;

 private:
  sqlite3_stmt* statement_;
};

class SqliteConnection final : public Connection {
 public:
  SqliteConnection() = default;
  ~SqliteConnection() override {
    drop_statements();
    sqlite3_close_v2(db_);
  }

  Status open(const std::string& path);
  Engine engine() const override { return Engine::kSqlite; }
  Status begin(bool write, const Deadline& deadline) override;
  Result<Outcome> exec(std::string_view sql, const Values& values, const Deadline& deadline) override;
  Status commit() override;
  void rollback() override;
  bool usable() const override { return usable_ && sqlite3_get_autocommit(db_) != 0; }

 private:
  static int on_progress(void* self);
  static int on_busy(void* self, int tries);
  Status simple(const char* sql);
  Result<sqlite3_stmt*> prepare(std::string_view sql);
  Status bind(sqlite3_stmt* statement, std::string_view sql, const Values& values);
  Result<Row> read_row(sqlite3_stmt* statement, std::string_view sql);
  Error fail(int rc, std::string_view sql);
  void drop_statements();

  sqlite3* db_ = nullptr;
  std::unordered_map<std::string, sqlite3_stmt*> statements_;
  const Deadline* deadline_ = nullptr;  // of the call in progress
  Duration busy_since_{0};
  bool usable_ = true;
};

Status SqliteConnection::open(const std::string& path) {
  // The file holds token hashes: nobody else may read it. Only a new file is touched, because closing a descriptor of an
  // open SQLite file would drop this process's locks on it.
  int fd = ::open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0) {
    ::close(fd);
  } else if (errno != EEXIST) {
    return Error::from_errno(errno, "cannot create the catalog " + path);
  }
  int rc = sqlite3_open_v2(path.c_str(), &db_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nullptr);
  if (rc != SQLITE_OK) {
    return Error(Code::kCatalogUnavailable, fmt::format("cannot open the catalog {}: {}", path, sqlite3_errstr(rc)));
  }
  sqlite3_busy_handler(db_, &SqliteConnection::on_busy, this);
  sqlite3_progress_handler(db_, kProgressSteps, &SqliteConnection::on_progress, this);
  sqlite3_db_config(db_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(db_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(db_, SQLITE_DBCONFIG_DQS_DML, 0, nullptr);  // "x" is a name, never text, as on PostgreSQL
  sqlite3_db_config(db_, SQLITE_DBCONFIG_DQS_DDL, 0, nullptr);
  CAIRN_CHECK_OK(simple("pragma journal_mode = wal"));
  CAIRN_CHECK_OK(simple("pragma synchronous = full"));
  CAIRN_CHECK_OK(simple("pragma foreign_keys = on"));
  CAIRN_CHECK_OK(simple("pragma recursive_triggers = off"));
  // WAL is silently not taken on some file systems (and never for a file in memory): no catalog without it.
  CAIRN_TRY(Outcome mode, exec("pragma journal_mode", {}, Deadline::never()));
  if (mode.rows.size() != 1 || mode.rows[0].text(0) != "wal") {
    return Error(Code::kCatalogUnavailable, "the catalog " + path + " lies on a file system without SQLite's write-ahead log")
        .with_hint("Put the data folder on a local disk.");
  }
  deadline_ = nullptr;
  return ok();
}

int SqliteConnection::on_progress(void* self) {
  const Deadline* deadline = static_cast<SqliteConnection*>(self)->deadline_;
  return deadline != nullptr && deadline->expired() ? 1 : 0;
}

int SqliteConnection::on_busy(void* self, int tries) {
  auto* connection = static_cast<SqliteConnection*>(self);
  Duration now = system_clock().monotonic();
  if (tries == 0) connection->busy_since_ = now;
  if (now - connection->busy_since_ > milliseconds(kBusyTimeoutMs)) return 0;
  if (connection->deadline_ != nullptr && connection->deadline_->expired()) return 0;
  system_clock().sleep_for(milliseconds(tries < 10 ? 1 : 5));
  return 1;
}

Status SqliteConnection::simple(const char* sql) {
  int rc = sqlite3_exec(db_, sql, nullptr, nullptr, nullptr);
  return rc == SQLITE_OK ? ok() : Status(fail(rc, sql));
}

void SqliteConnection::drop_statements() {
  for (auto& [sql, statement] : statements_) sqlite3_finalize(statement);
  statements_.clear();
}

Error SqliteConnection::fail(int rc, std::string_view sql) {
  int primary = rc & 0xff;
  if (primary == SQLITE_INTERRUPT) {
    failure_ = Failure::kOther;
    Status why = deadline_ != nullptr ? deadline_->check() : ok();
    if (!why) return std::move(why).error().while_doing("using the catalog");
    return Error(Code::kCancelled, "the catalog statement was interrupted");
  }
  if (primary == SQLITE_BUSY || primary == SQLITE_LOCKED) {
    failure_ = Failure::kRetry;
    return Error(Code::kBusy, "the catalog is locked by another process").with_hint("Try again.");
  }
  failure_ = Failure::kOther;
  if (primary == SQLITE_FULL) {
    return Error(Code::kNoSpaceLeft, "the disk of the catalog is full").with_hint("Free space on the server's data folder.");
  }
  if (primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB) {
    usable_ = false;
    return Error(Code::kDataCorrupt, fmt::format("the catalog file is damaged: {}", sqlite3_errmsg(db_)));
  }
  if (primary == SQLITE_IOERR) {
    usable_ = false;
    return Error(Code::kCatalogUnavailable, fmt::format("the catalog's disk failed: {}", sqlite3_errstr(rc)));
  }
  // SQLite's messages name tables, columns and constraints, never bound values.
  return Error(Code::kInternal, fmt::format("catalog statement failed: {} [{}]", sqlite3_errmsg(db_), sql));
}

Result<sqlite3_stmt*> SqliteConnection::prepare(std::string_view sql) {
  std::string key(sql);
  if (auto it = statements_.find(key); it != statements_.end()) return it->second;
  if (statements_.size() >= kStatementsMax) drop_statements();
  sqlite3_stmt* statement = nullptr;
  const char* tail = nullptr;
  int rc = sqlite3_prepare_v3(db_, sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT, &statement, &tail);
  if (rc != SQLITE_OK) return fail(rc, sql);
  if (statement == nullptr || tail != sql.data() + sql.size()) {
    sqlite3_finalize(statement);
    failure_ = Failure::kOther;
    return Error(Code::kInternal, fmt::format("not exactly one catalog statement [{}]", sql));
  }
  statements_.emplace(std::move(key), statement);
  return statement;
}

Status SqliteConnection::bind(sqlite3_stmt* statement, std::string_view sql, const Values& values) {
  if (sqlite3_bind_parameter_count(statement) != static_cast<int>(values.size())) {
    failure_ = Failure::kOther;
    return Error(Code::kInternal, fmt::format("{} values for {} placeholders [{}]", values.size(),
                                              sqlite3_bind_parameter_count(statement), sql));
  }
  for (size_t i = 0; i < values.size(); ++i) {
    int index = static_cast<int>(i) + 1;
    int rc = SQLITE_OK;
    if (const auto* number = std::get_if<int64_t>(&values[i])) {
      rc = sqlite3_bind_int64(statement, index, *number);
    } else if (const auto* text = std::get_if<std::string>(&values[i])) {
      // Not copied: the caller's values outlive the step.
      rc = sqlite3_bind_text64(statement, index, text->data(), text->size(), SQLITE_STATIC, SQLITE_UTF8);
    } else {
      rc = sqlite3_bind_null(statement, index);
    }
    if (rc != SQLITE_OK) return fail(rc, sql);
  }
  return ok();
}

Result<Row> SqliteConnection::read_row(sqlite3_stmt* statement, std::string_view sql) {
  Values columns;
  int count = sqlite3_column_count(statement);
  columns.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    switch (sqlite3_column_type(statement, i)) {
      case SQLITE_NULL: columns.emplace_back(); break;
      case SQLITE_INTEGER: columns.emplace_back(int64_t{sqlite3_column_int64(statement, i)}); break;
      case SQLITE_TEXT: {
        const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, i));
        if (text == nullptr) return fail(SQLITE_NOMEM, sql);
        columns.emplace_back(std::string(text, static_cast<size_t>(sqlite3_column_bytes(statement, i))));
        break;
      }
      default:
        failure_ = Failure::kOther;
        return Error(Code::kInternal, fmt::format("column {} is neither int64 nor text [{}]", i, sql));
    }
  }
  return Row(std::move(columns));
}

Result<Outcome> SqliteConnection::exec(std::string_view sql, const Values& values, const Deadline& deadline) {
  deadline_ = &deadline;
  CAIRN_TRY(sqlite3_stmt * statement, prepare(sql));
  ResetGuard guard(statement);
  CAIRN_CHECK_OK(bind(statement, sql, values));
  Outcome outcome;
  int64_t before = sqlite3_total_changes64(db_);
  int rc = SQLITE_OK;
  while ((rc = sqlite3_step(statement)) == SQLITE_ROW) {
    if (outcome.rows.size() == Tx::kRowsMax) {
      failure_ = Failure::kOther;
      return Error(Code::kLimitExceeded, fmt::format("more than {} rows [{}]", Tx::kRowsMax, sql));
    }
    CAIRN_TRY(Row row, read_row(statement, sql));
    outcome.rows.push_back(std::move(row));
  }
  if (rc != SQLITE_DONE) return fail(rc, sql);
  outcome.affected = sqlite3_total_changes64(db_) - before;
  return outcome;
}

Status SqliteConnection::begin(bool write, const Deadline& deadline) {
  failure_ = Failure::kNone;
  deadline_ = &deadline;
  CAIRN_CHECK_OK(simple(write ? "pragma query_only = off" : "pragma query_only = on"));
  return simple(std::string(begin_sql(Engine::kSqlite, write)).c_str());
}

Status SqliteConnection::commit() {
  deadline_ = nullptr;
  int rc = sqlite3_exec(db_, "commit", nullptr, nullptr, nullptr);
  if (rc == SQLITE_OK) return ok();
  Error error = fail(rc, "commit");
  // After a failed sync the frames of this transaction may or may not be found when the log is read again.
  if ((rc & 0xff) == SQLITE_IOERR) {
    return Error(Code::kOutcomeUnknown, "the catalog's disk failed during COMMIT: " + error.message())
        .with_hint("Ask again with the same request id.");
  }
  return error;
}

void SqliteConnection::rollback() {
  deadline_ = nullptr;
  if (sqlite3_get_autocommit(db_) == 0) sqlite3_exec(db_, "rollback", nullptr, nullptr, nullptr);
}

}  // namespace

Result<std::unique_ptr<Connection>> open_sqlite(const std::string& path) {
  auto connection = std::make_unique<SqliteConnection>();
  CAIRN_CHECK_OK(connection->open(path));
  return std::unique_ptr<Connection>(std::move(connection));
}

}  // namespace cairn::catalog
