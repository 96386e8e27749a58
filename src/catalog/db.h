// One SQL layer over SQLite and PostgreSQL. `Db` is a bounded pool of connections to one catalog; `Tx` is one transaction.
// The SQL text is the same for both engines: placeholders are ?1, ?2, … (rewritten to $1, … for PostgreSQL); values are
// null, int64 or UTF-8 text without NUL; ids, hashes and keys are lower-case hex text, times int64 microseconds, no blobs.
//
// Promises: `transact` commits everything its function did, or nothing. A function may be called several times (after a
// serialization failure, a deadlock or a connection lost before COMMIT), so it must have no effect outside its Tx other
// than through its return value. A COMMIT whose answer is lost with the connection is kOutcomeUnknown and is never retried
// here: the caller reads the request row again. `affected` counts rows changed by the statement itself on both engines
// (so: no triggers, no cascades). After a failed statement the transaction is over: each later statement answers the same
// error and nothing is committed. Isolation is a snapshot (SQLite: one writer at a time; PostgreSQL: REPEATABLE READ), so
// every invariant must be one conditional statement whose affected rows are checked. Error texts hold no bound values and
// no password.
//
// Db is thread-safe; a Tx belongs to the thread that runs the function. Db::read and Db::transact do not nest.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/deadline.h"
#include "base/ids.h"
#include "base/result.h"

namespace cairn::catalog {

enum class Engine { kSqlite, kPostgres };

using Value = std::variant<std::monostate, int64_t, std::string>;  // monostate is NULL
using Values = std::vector<Value>;

// NULL for nothing.
inline Value value_or_null(const std::optional<std::string>& text) { return text ? Value(*text) : Value(); }
inline Value value_or_null(const std::optional<int64_t>& number) { return number ? Value(*number) : Value(); }

// One row of a result. The column's kind is fixed by the schema, so a wrong kind or index is a programming error.
class Row {
 public:
  explicit Row(Values columns) : columns_(std::move(columns)) {}

  size_t size() const { return columns_.size(); }
  bool is_null(size_t i) const { return std::holds_alternative<std::monostate>(at(i)); }
  int64_t integer(size_t i) const {
    const auto* number = std::get_if<int64_t>(&at(i));
    CAIRN_CHECK(number != nullptr);
    return *number;
  }
  const std::string& text(size_t i) const {
    const auto* text = std::get_if<std::string>(&at(i));
    CAIRN_CHECK(text != nullptr);
    return *text;
  }
  bool boolean(size_t i) const { return integer(i) != 0; }
  Time time(size_t i) const { return Time{integer(i)}; }
  std::optional<int64_t> maybe_integer(size_t i) const { return is_null(i) ? std::nullopt : std::optional(integer(i)); }
  std::optional<std::string> maybe_text(size_t i) const { return is_null(i) ? std::nullopt : std::optional(text(i)); }
  std::optional<Time> maybe_time(size_t i) const { return is_null(i) ? std::nullopt : std::optional(time(i)); }
  // kDataCorrupt when the stored text is not 32 hex digits.
  template <class IdType>
  Result<IdType> id(size_t i) const {
    std::optional<IdType> id = IdType::from_hex(text(i));
    if (!id) return Error(Code::kDataCorrupt, "the catalog holds an id that is not 32 hex digits");
    return *id;
  }

 private:
  const Value& at(size_t i) const {
    CAIRN_CHECK(i < columns_.size());
    return columns_[i];
  }
  Values columns_;
};

using Rows = std::vector<Row>;

struct Outcome {
  Rows rows;
  int64_t affected = 0;  // rows inserted, updated or deleted; 0 for a SELECT
};

class Connection;

class Tx {
 public:
  Tx(const Tx&) = delete;
  Tx& operator=(const Tx&) = delete;

  // One statement. The text is cached by content: keep values out of it. At most kRowsMax rows.
  Result<Outcome> exec(std::string_view sql, const Values& values = {});
  Result<Rows> query(std::string_view sql, const Values& values = {});
  // The first row, or nothing.
  Result<std::optional<Row>> query_one(std::string_view sql, const Values& values = {});
  // The number of affected rows.
  Result<int64_t> update(std::string_view sql, const Values& values = {});

  Engine engine() const;

  static constexpr size_t kRowsMax = 500'000;

 private:
  friend class Db;
  Tx(Connection& connection, const Deadline& deadline) : connection_(&connection), deadline_(&deadline) {}
  Connection* connection_;
  const Deadline* deadline_;
  std::optional<Error> failed_;
};

struct DbOptions {
  size_t connections_max = 8;
  int attempts_max = 30;                    // of one transaction after serialization failures; lost connections are tried four times
  Duration connect_timeout = seconds(10);   // for one try
  Duration transaction_timeout = minutes(2);  // for one transaction with all its retries, where the deadline is later
};

class Db {
 public:
  // "sqlite:PATH", a plain path, or "postgresql://…" (also "postgres://…"). Creates a SQLite file (mode 0600) that is not
  // there; never creates a PostgreSQL database. Does not touch the schema: see migrations.h.
  static Result<std::unique_ptr<Db>> open(const std::string& url, DbOptions options = {});
  ~Db();
  Db(const Db&) = delete;
  Db& operator=(const Db&) = delete;

  // `fn(Tx&)` returns Status or Result<T>; so does the call. `read` sees one snapshot and refuses to write.
  template <class Fn>
  std::invoke_result_t<Fn&, Tx&> read(Fn&& fn, const Deadline& deadline = Deadline::never()) {
    return call(Mode::kRead, fn, deadline);
  }
  template <class Fn>
  std::invoke_result_t<Fn&, Tx&> transact(Fn&& fn, const Deadline& deadline = Deadline::never()) {
    return call(Mode::kWrite, fn, deadline);
  }

  Engine engine() const;
  // For logs: the path, or host and database; never a password.
  const std::string& display_name() const;
  // Transactions that were run again since the start (serialization failures, lost connections).
  uint64_t retries() const;

 private:
  enum class Mode { kRead, kWrite };
  struct Impl;
  class Borrowed;
  explicit Db(std::unique_ptr<Impl> impl);
  Status run(Mode mode, const std::function<Status(Tx&)>& fn, const Deadline& deadline);
  Status attempt_once(bool write, const std::function<Status(Tx&)>& fn, const Deadline& deadline, int attempt, bool& again);

  template <class Fn>
  std::invoke_result_t<Fn&, Tx&> call(Mode mode, Fn& fn, const Deadline& deadline) {
    using R = std::invoke_result_t<Fn&, Tx&>;
    if constexpr (std::is_same_v<R, Status>) {
      return run(mode, fn, deadline);
    } else {
      std::optional<R> result;
      Status status = run(
          mode,
          [&](Tx& tx) -> Status {
            result.emplace(fn(tx));
            if (!*result) return result->error();
            return ok();
          },
          deadline);
      if (!status) return R(std::move(status).error());
      return *std::move(result);
    }
  }

  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn::catalog
