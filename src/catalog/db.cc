#include "catalog/db.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>

#include <fmt/format.h>

#include "base/random.h"
#include "catalog/connection.h"
#include "catalog/utf8.h"

namespace cairn::catalog {

namespace {

// The Db whose transaction this thread is in: a nested one would wait for itself.
thread_local const Db* current_db = nullptr;

class CurrentDb {
 public:
  explicit CurrentDb(const Db* db) : before_(current_db) { current_db = db; }
  ~CurrentDb() { current_db = before_; }
  CurrentDb(const CurrentDb&) = delete;
  CurrentDb& operator=(const CurrentDb&) = delete;

 private:
  const Db* before_;
};

constexpr int kConnectAttempts = 4;  // a transaction that costs its connection each time is not tried for ever

// 0.5–1 times 2 ms · 2^attempt, at most 500 ms.
Duration backoff(int attempt) {
  int64_t ceiling = std::min<int64_t>(500'000, int64_t{2'000} << std::min(attempt, 10));
  return Duration(ceiling / 2 + static_cast<int64_t>(system_random().below(static_cast<uint64_t>(ceiling / 2) + 1)));
}

}  // namespace

Result<Outcome> Tx::exec(std::string_view sql, const Values& values) {
  if (failed_) return *failed_;
  for (const Value& value : values) {
    const auto* text = std::get_if<std::string>(&value);
    if (text == nullptr || is_catalog_text(*text)) continue;
    failed_ = Error(Code::kRequestInvalid, fmt::format("text with a NUL byte or broken UTF-8 cannot be stored [{}]", sql));
    return *failed_;
  }
  Result<Outcome> outcome = connection_->exec(sql, values, *deadline_);
  if (!outcome) failed_ = outcome.error();
  return outcome;
}

Result<Rows> Tx::query(std::string_view sql, const Values& values) {
  CAIRN_TRY(Outcome outcome, exec(sql, values));
  return std::move(outcome.rows);
}

Result<std::optional<Row>> Tx::query_one(std::string_view sql, const Values& values) {
  CAIRN_TRY(Outcome outcome, exec(sql, values));
  if (outcome.rows.empty()) return std::optional<Row>();
  return std::optional<Row>(std::move(outcome.rows.front()));
}

Result<int64_t> Tx::update(std::string_view sql, const Values& values) {
  CAIRN_TRY(Outcome outcome, exec(sql, values));
  return outcome.affected;
}

Engine Tx::engine() const { return connection_->engine(); }

// The pool: at most connections_max connections, opened when needed. On SQLite one more gate lets one writer of this
// process in at a time, in no order but without polling the file's lock.
struct Db::Impl {
  std::string url;
  std::string name;
  Engine engine = Engine::kSqlite;
  DbOptions options;
  std::atomic<uint64_t> retries{0};

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::unique_ptr<Connection>> idle;
  size_t open = 0;
  bool writing = false;

  Result<std::unique_ptr<Connection>> connect() const {
    return engine == Engine::kSqlite ? open_sqlite(url) : open_postgres(url, options.connect_timeout);
  }
  Result<std::unique_ptr<Connection>> take(bool write, const Deadline& deadline);
  void give(std::unique_ptr<Connection> connection, bool write);
};

// A connection out of the pool; it goes back when the scope ends, however that happens.
class Db::Borrowed {
 public:
  Borrowed(Impl& impl, std::unique_ptr<Connection> connection, bool write)
      : impl_(impl), connection_(std::move(connection)), write_(write) {}
  ~Borrowed() {
    connection_->rollback();
    impl_.give(std::move(connection_), write_);
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  Connection& operator*() { return *connection_; }

 private:
  Impl& impl_;
  std::unique_ptr<Connection> connection_;
  bool write_;
};

Result<std::unique_ptr<Connection>> Db::Impl::take(bool write, const Deadline& deadline) {
  bool gate = write && engine == Engine::kSqlite;
  std::unique_ptr<Connection> connection;
  {
    std::unique_lock lock(mutex);
    while ((gate && writing) || (idle.empty() && open >= options.connections_max)) {
      CAIRN_CHECK_OK(deadline.check());
      changed.wait_for(lock, std::min<Duration>(deadline.remaining(), milliseconds(100)));
    }
    if (gate) writing = true;
    if (!idle.empty()) {
      connection = std::move(idle.back());
      idle.pop_back();
      return connection;
    }
    ++open;
  }
  Result<std::unique_ptr<Connection>> fresh = connect();
  if (!fresh) give(nullptr, write);
  return fresh;
}

void Db::Impl::give(std::unique_ptr<Connection> connection, bool write) {
  bool lost = connection && connection->failure() == Failure::kLost;
  if (connection && !connection->usable()) connection.reset();
  std::vector<std::unique_ptr<Connection>> dropped;  // closed outside of the lock
  {
    std::lock_guard lock(mutex);
    if (write && engine == Engine::kSqlite) writing = false;
    if (connection) {
      idle.push_back(std::move(connection));
    } else {
      --open;
    }
    // What ended one connection has most likely ended the idle ones too.
    if (lost) {
      open -= idle.size();
      dropped.swap(idle);
    }
  }
  changed.notify_all();
}

Db::Db(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Db::~Db() = default;
Engine Db::engine() const { return impl_->engine; }
const std::string& Db::display_name() const { return impl_->name; }
uint64_t Db::retries() const { return impl_->retries.load(); }

Result<std::unique_ptr<Db>> Db::open(const std::string& url, DbOptions options) {
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  std::string_view text = url;
  if (text.starts_with("postgresql://") || text.starts_with("postgres://")) {
    impl->engine = Engine::kPostgres;
    impl->url = url;
    CAIRN_TRY(impl->name, check_postgres_url(url));
  } else {
    if (text.starts_with("sqlite:")) text.remove_prefix(7);
    if (text.empty() || text.starts_with(":") || text.find("://") != text.npos) {
      return Error(Code::kConfigInvalid, "the catalog must be a file's path, sqlite:PATH or postgresql://…");
    }
    impl->url = impl->name = std::string(text);
  }
  CAIRN_TRY(std::unique_ptr<Connection> first, impl->connect());
  impl->open = 1;
  impl->idle.push_back(std::move(first));
  return std::unique_ptr<Db>(new Db(std::move(impl)));
}

Status Db::attempt_once(bool write, const std::function<Status(Tx&)>& fn, const Deadline& deadline, int attempt, bool& again) {
  Result<std::unique_ptr<Connection>> taken = impl_->take(write, deadline);
  if (!taken) {
    again = taken.error().code() == Code::kCatalogUnavailable && attempt < kConnectAttempts;
    return std::move(taken).error();
  }
  Borrowed borrowed(*impl_, *std::move(taken), write);
  Connection& connection = *borrowed;
  Tx tx(connection, deadline);
  Status status = connection.begin(write, deadline);
  if (status) status = fn(tx);
  if (status && tx.failed_) status = *tx.failed_;  // the function went on after a failed statement: nothing may stay
  if (status && write) status = connection.commit();  // a reader has nothing to commit: it is rolled back
  bool known = status || status.error().code() != Code::kOutcomeUnknown;
  bool lost = connection.failure() == Failure::kLost && attempt < kConnectAttempts;
  again = !status && known && (connection.failure() == Failure::kRetry || lost);
  return status;
}

Status Db::run(Mode mode, const std::function<Status(Tx&)>& fn, const Deadline& outer) {
  CAIRN_CHECK(current_db != this);
  CurrentDb here(this);
  bool write = mode == Mode::kWrite;
  Deadline deadline = outer.child(impl_->options.transaction_timeout);
  for (int attempt = 1;; ++attempt) {
    CAIRN_CHECK_OK(deadline.check());
    bool again = false;
    Status status = attempt_once(write, fn, deadline, attempt, again);
    if (status || !again || attempt >= impl_->options.attempts_max) return status;
    impl_->retries.fetch_add(1);
    Duration pause = std::min(backoff(attempt), deadline.remaining());
    if (pause > Duration(0)) system_clock().sleep_for(pause);
  }
}

}  // namespace cairn::catalog
