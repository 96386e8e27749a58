// What Db needs of one connection to an engine. Private to catalog/.
//
// A connection is used by one thread at a time. After an error `failure()` says what kind it was; the transaction that met
// it can only be rolled back.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/result.h"
#include "catalog/db.h"

namespace cairn::catalog {

enum class Failure {
  kNone,
  kRetry,  // serialization failure, deadlock, busy: the same transaction may succeed when run again
  kLost,   // the connection is gone
  kOther,
};

class Connection {
 public:
  virtual ~Connection() = default;
  virtual Engine engine() const = 0;
  virtual Status begin(bool write, const Deadline& deadline) = 0;
  virtual Result<Outcome> exec(std::string_view sql, const Values& values, const Deadline& deadline) = 0;
  // kOutcomeUnknown when nobody can say whether it was committed. Waits on beyond any deadline, for at most
  // kCommitWait, because breaking off would only make the outcome unknown.
  virtual Status commit() = 0;
  virtual void rollback() = 0;
  // False when the connection must not go back into the pool.
  virtual bool usable() const = 0;
  Failure failure() const { return failure_; }

  static constexpr Duration kCommitWait = seconds(30);
  static constexpr size_t kStatementsMax = 256;  // cached prepared statements; all are dropped when more are needed

 protected:
  Failure failure_ = Failure::kNone;
};

Result<std::unique_ptr<Connection>> open_sqlite(const std::string& path);
// `url` was accepted by check_postgres_url.
Result<std::unique_ptr<Connection>> open_postgres(const std::string& url, Duration connect_timeout);
// The name to show, "postgresql://host/database", or an error for a URL libpq does not take.
Result<std::string> check_postgres_url(const std::string& url);

}  // namespace cairn::catalog
