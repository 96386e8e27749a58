#include <libpq-fe.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <unordered_map>

#include <fmt/format.h>

#include "catalog/connection.h"
#include "catalog/dialect.h"

namespace cairn::catalog {

namespace {

// pg_type.oid of the types a catalog statement may give or take.
constexpr Oid kBool = 16, kInt8 = 20, kInt2 = 21, kInt4 = 23, kText = 25, kName = 19, kBpchar = 1042, kVarchar = 1043, kNumeric = 1700;

constexpr Duration kPollSlice = milliseconds(100);  // how late a cancelled deadline is noticed
constexpr Duration kCancelWait = seconds(5);        // for the answer to a cancel request

struct ConnFree {
  void operator()(PGconn* connection) const { PQfinish(connection); }
};
struct ResultFree {
  void operator()(PGresult* result) const { PQclear(result); }
};
using ResultPtr = std::unique_ptr<PGresult, ResultFree>;

std::string_view field(const PGresult* result, int code) {
  const char* text = PQresultErrorField(result, code);
  return text == nullptr ? std::string_view() : std::string_view(text);
}

std::string_view class_of(std::string_view sqlstate) { return sqlstate.substr(0, 2); }

class PostgresConnection final : public Connection {
 public:
  Status open(const std::string& url, Duration connect_timeout);
  Engine engine() const override { return Engine::kPostgres; }
  Status begin(bool write, const Deadline& deadline) override;
  Result<Outcome> exec(std::string_view sql, const Values& values, const Deadline& deadline) override;
  Status commit() override;
  void rollback() override;
  bool usable() const override {
    return !broken_ && PQstatus(conn_.get()) == CONNECTION_OK && PQtransactionStatus(conn_.get()) == PQTRANS_IDLE;
  }

 private:
  Result<std::string> prepare(std::string_view sql, const Values& values, const Deadline& deadline);
  Result<ResultPtr> simple(const char* sql, const Deadline& deadline);
  // The last result of what was sent. Cancels at the deadline.
  Result<ResultPtr> wait(std::string_view sql, const Deadline& deadline);
  Status wait_readable(const Deadline& deadline, bool& cancelled, Duration& cancelled_at);
  void cancel();
  Error lost();
  Error fail(const PGresult* result, std::string_view sql, bool with_message);
  Result<Outcome> read_outcome(const PGresult* result, std::string_view sql);
  Result<Value> read_value(const PGresult* result, int row, int column, std::string_view sql);

  std::unique_ptr<PGconn, ConnFree> conn_;
  std::unordered_map<std::string, std::string> statements_;  // text and parameter kinds -> name
  uint64_t next_statement_ = 0;
  bool broken_ = false;
};

Status PostgresConnection::open(const std::string& url, Duration connect_timeout) {
  std::string timeout = std::to_string(std::max<int64_t>(1, connect_timeout / seconds(1)));
  // What stands before dbname, the URL may override. A dead host is noticed within a minute, also by a cancel request.
  const char* keys[] = {"tcp_user_timeout", "keepalives_idle", "keepalives_interval", "dbname", "connect_timeout",
                        "application_name", "client_encoding", nullptr};
  const char* values[] = {"30000", "30", "10", url.c_str(), timeout.c_str(), "cairn", "UTF8", nullptr};
  conn_.reset(PQconnectdbParams(keys, values, 1));
  if (PQstatus(conn_.get()) != CONNECTION_OK) {
    failure_ = Failure::kLost;
    std::string why = conn_ ? PQerrorMessage(conn_.get()) : "out of memory";  // names host and user, never the password
    while (!why.empty() && why.back() == '\n') why.pop_back();
    return Error(Code::kCatalogUnavailable, "cannot reach the catalog: " + why)
        .with_hint("Check that PostgreSQL runs and that the catalog's URL is right.");
  }
  PQsetNoticeProcessor(conn_.get(), [](void*, const char*) {}, nullptr);
  PQsetErrorVerbosity(conn_.get(), PQERRORS_TERSE);
  CAIRN_TRY(ResultPtr done, simple("set client_min_messages = warning; set synchronous_commit = on;"
                                   " set idle_in_transaction_session_timeout = '5min'; set timezone = 'UTC'",
                                   Deadline::after(connect_timeout)));
  return ok();
}

void PostgresConnection::cancel() {
  PGcancel* handle = PQgetCancel(conn_.get());
  if (handle == nullptr) return;
  char ignored[256];
  PQcancel(handle, ignored, sizeof ignored);
  PQfreeCancel(handle);
}

Error PostgresConnection::lost() {
  failure_ = Failure::kLost;
  broken_ = true;
  return Error(Code::kCatalogUnavailable, "the connection to the catalog was lost").with_hint("Check that PostgreSQL runs.");
}

Status PostgresConnection::wait_readable(const Deadline& deadline, bool& cancelled, Duration& cancelled_at) {
  Duration now = system_clock().monotonic();
  if (!cancelled && deadline.expired()) {
    cancel();
    cancelled = true;
    cancelled_at = now;
  }
  if (cancelled && now - cancelled_at > kCancelWait) return lost();
  pollfd socket{PQsocket(conn_.get()), POLLIN, 0};
  if (socket.fd < 0) return lost();
  Duration slice = cancelled ? kPollSlice : std::min(kPollSlice, deadline.remaining());
  int timeout_ms = static_cast<int>((slice + milliseconds(1)) / milliseconds(1));
  int ready = ::poll(&socket, 1, timeout_ms);
  if (ready < 0 && errno != EINTR) return lost();
  if (ready > 0 && PQconsumeInput(conn_.get()) == 0) return lost();
  return ok();
}

Result<ResultPtr> PostgresConnection::wait(std::string_view sql, const Deadline& deadline) {
  bool cancelled = false;
  Duration cancelled_at{0};
  ResultPtr last;
  for (;;) {
    while (PQisBusy(conn_.get()) != 0) CAIRN_CHECK_OK(wait_readable(deadline, cancelled, cancelled_at));
    ResultPtr result(PQgetResult(conn_.get()));
    if (!result) break;
    // The first error stands: what follows it only says that the transaction is over.
    if (!last || PQresultStatus(last.get()) != PGRES_FATAL_ERROR) last = std::move(result);
    if (PQstatus(conn_.get()) != CONNECTION_OK) break;
  }
  if (!last) return lost();
  if (cancelled && field(last.get(), PG_DIAG_SQLSTATE) == "57014") {
    failure_ = Failure::kOther;
    Status why = deadline.check();
    if (!why) return std::move(why).error().while_doing(fmt::format("using the catalog [{}]", sql));
  }
  return last;
}

Error PostgresConnection::fail(const PGresult* result, std::string_view sql, bool with_message) {
  std::string_view state = field(result, PG_DIAG_SQLSTATE);
  // 08P01, a protocol violation, is a statement with the wrong number of values.
  if (PQstatus(conn_.get()) != CONNECTION_OK || state.empty() || (class_of(state) == "08" && state != "08P01") ||
      state == "57P01" || state == "57P02" || state == "57P03" || state == "40003") {
    return lost();
  }
  if (state == "40001" || state == "40P01" || state == "55P03") {
    failure_ = Failure::kRetry;
    return Error(Code::kBusy, "the catalog is busy with conflicting transactions").with_hint("Try again.");
  }
  failure_ = Failure::kOther;
  if (state == "57014") return Error(Code::kDeadlineExceeded, fmt::format("the catalog ended the statement [{}]", sql));
  if (state == "53100") return Error(Code::kNoSpaceLeft, "the disk of the catalog is full");
  if (class_of(state) == "53") return Error(Code::kBusy, fmt::format("the catalog is short of resources ({})", state));
  // Messages of a running statement may quote values; names of constraints, tables and columns do not.
  std::string text = fmt::format("catalog statement failed: SQLSTATE {}", state);
  if (std::string_view name = field(result, PG_DIAG_CONSTRAINT_NAME); !name.empty()) text += fmt::format(", constraint {}", name);
  if (std::string_view name = field(result, PG_DIAG_TABLE_NAME); !name.empty()) text += fmt::format(", table {}", name);
  if (std::string_view name = field(result, PG_DIAG_COLUMN_NAME); !name.empty()) text += fmt::format(", column {}", name);
  if (with_message) text += fmt::format(": {}", field(result, PG_DIAG_MESSAGE_PRIMARY));
  return Error(Code::kInternal, fmt::format("{} [{}]", text, sql));
}

// Only for texts of our own that hold no values.
Result<ResultPtr> PostgresConnection::simple(const char* sql, const Deadline& deadline) {
  if (PQsendQuery(conn_.get(), sql) == 0) return lost();
  CAIRN_TRY(ResultPtr result, wait(sql, deadline));
  if (PQresultStatus(result.get()) == PGRES_FATAL_ERROR) return fail(result.get(), sql, true);
  return result;
}

Result<std::string> PostgresConnection::prepare(std::string_view sql, const Values& values, const Deadline& deadline) {
  std::string key(sql);
  key += '\0';
  for (const Value& value : values) key += static_cast<char>('0' + value.index());
  if (auto it = statements_.find(key); it != statements_.end()) return it->second;
  if (statements_.size() >= kStatementsMax) {
    CAIRN_TRY(ResultPtr dropped, simple("deallocate all", deadline));
    statements_.clear();
  }
  CAIRN_TRY(std::string text, postgres_placeholders(sql));
  std::string name = fmt::format("s{}", next_statement_++);
  // The kinds are given, so that an int64 never turns into text on the way; NULL takes its kind from where it stands.
  std::vector<Oid> types;
  for (const Value& value : values) types.push_back(value.index() == 1 ? kInt8 : value.index() == 2 ? kText : 0);
  if (PQsendPrepare(conn_.get(), name.c_str(), text.c_str(), static_cast<int>(types.size()), types.data()) == 0) return lost();
  CAIRN_TRY(ResultPtr result, wait(sql, deadline));
  if (PQresultStatus(result.get()) != PGRES_COMMAND_OK) return fail(result.get(), sql, true);
  statements_.emplace(std::move(key), name);
  return name;
}

Result<Value> PostgresConnection::read_value(const PGresult* result, int row, int column, std::string_view sql) {
  if (PQgetisnull(result, row, column) != 0) return Value();
  std::string_view text(PQgetvalue(result, row, column), static_cast<size_t>(PQgetlength(result, row, column)));
  switch (PQftype(result, column)) {
    case kText: case kVarchar: case kBpchar: case kName: return Value(std::string(text));
    case kBool: return Value(int64_t{text == "t"});
    case kInt2: case kInt4: case kInt8: case kNumeric: {  // numeric is what sum() of a bigint gives
      int64_t number = 0;
      auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
      if (error == std::errc() && end == text.data() + text.size()) return Value(number);
      break;
    }
    default: break;
  }
  failure_ = Failure::kOther;
  return Error(Code::kInternal, fmt::format("column {} is neither int64 nor text [{}]", column, sql));
}

Result<Outcome> PostgresConnection::read_outcome(const PGresult* result, std::string_view sql) {
  Outcome outcome;
  int rows = PQntuples(result);
  int columns = PQnfields(result);
  if (static_cast<size_t>(rows) > Tx::kRowsMax) {
    failure_ = Failure::kOther;
    return Error(Code::kLimitExceeded, fmt::format("more than {} rows [{}]", Tx::kRowsMax, sql));
  }
  outcome.rows.reserve(static_cast<size_t>(rows));
  for (int row = 0; row < rows; ++row) {
    Values values;
    values.reserve(static_cast<size_t>(columns));
    for (int column = 0; column < columns; ++column) {
      CAIRN_TRY(Value value, read_value(result, row, column, sql));
      values.push_back(std::move(value));
    }
    outcome.rows.emplace_back(std::move(values));
  }
  if (std::strncmp(PQcmdStatus(const_cast<PGresult*>(result)), "SELECT", 6) != 0) {
    std::string_view count = PQcmdTuples(const_cast<PGresult*>(result));
    std::from_chars(count.data(), count.data() + count.size(), outcome.affected);
  }
  return outcome;
}

Result<Outcome> PostgresConnection::exec(std::string_view sql, const Values& values, const Deadline& deadline) {
  CAIRN_TRY(std::string name, prepare(sql, values, deadline));
  std::vector<std::string> numbers(values.size());
  std::vector<const char*> texts(values.size(), nullptr);
  for (size_t i = 0; i < values.size(); ++i) {
    if (const auto* number = std::get_if<int64_t>(&values[i])) {
      numbers[i] = std::to_string(*number);
      texts[i] = numbers[i].c_str();
    } else if (const auto* text = std::get_if<std::string>(&values[i])) {
      texts[i] = text->c_str();
    }
  }
  if (PQsendQueryPrepared(conn_.get(), name.c_str(), static_cast<int>(values.size()), texts.data(), nullptr, nullptr, 0) == 0) {
    return lost();
  }
  CAIRN_TRY(ResultPtr result, wait(sql, deadline));
  ExecStatusType status = PQresultStatus(result.get());
  if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) return fail(result.get(), sql, false);
  return read_outcome(result.get(), sql);
}

Status PostgresConnection::begin(bool write, const Deadline& deadline) {
  failure_ = Failure::kNone;
  CAIRN_TRY(ResultPtr begun, simple(std::string(begin_sql(Engine::kPostgres, write)).c_str(), deadline));
  return ok();
}

Status PostgresConnection::commit() {
  Result<ResultPtr> result = simple("commit", Deadline::after(kCommitWait));
  if (!result) {
    // An answer of the server that is an error says that it did not happen. No answer says nothing.
    bool answered = failure_ != Failure::kLost && result.error().code() != Code::kDeadlineExceeded;
    if (answered) return std::move(result).error();
    failure_ = Failure::kLost;
    broken_ = true;
    return Error(Code::kOutcomeUnknown, "the connection to the catalog was lost during COMMIT")
        .with_hint("Ask again with the same request id.");
  }
  if (std::strcmp(PQcmdStatus(result->get()), "COMMIT") == 0) return ok();
  failure_ = Failure::kOther;
  return Error(Code::kInternal, "the catalog rolled the transaction back at COMMIT");
}

void PostgresConnection::rollback() {
  if (broken_ || PQstatus(conn_.get()) != CONNECTION_OK) return;
  PGTransactionStatusType status = PQtransactionStatus(conn_.get());
  if (status == PQTRANS_IDLE) return;
  Failure before = failure_;
  if (status == PQTRANS_ACTIVE || !simple("rollback", Deadline::after(kCancelWait))) broken_ = true;
  failure_ = before;
}

}  // namespace

Result<std::unique_ptr<Connection>> open_postgres(const std::string& url, Duration connect_timeout) {
  auto connection = std::make_unique<PostgresConnection>();
  CAIRN_CHECK_OK(connection->open(url, connect_timeout));
  return std::unique_ptr<Connection>(std::move(connection));
}

Result<std::string> check_postgres_url(const std::string& url) {
  char* why = nullptr;
  PQconninfoOption* options = PQconninfoParse(url.c_str(), &why);
  PQfreemem(why);  // it quotes the URL, password and all
  if (options == nullptr) {
    return Error(Code::kConfigInvalid, "the catalog's URL is not one that PostgreSQL's client library takes")
        .with_hint("Write postgresql://USER:PASSWORD@HOST:PORT/DATABASE and percent-encode special characters.");
  }
  std::string host = "localhost";
  std::string database;
  for (PQconninfoOption* option = options; option->keyword != nullptr; ++option) {
    if (option->val == nullptr) continue;
    if (std::strcmp(option->keyword, "host") == 0) host = option->val;
    if (std::strcmp(option->keyword, "dbname") == 0) database = option->val;
  }
  PQconninfoFree(options);
  return fmt::format("postgresql://{}/{}", host, database);
}

}  // namespace cairn::catalog
