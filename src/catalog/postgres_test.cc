// What only PostgreSQL can do to us: transactions that conflict, and connections that die before, at and after COMMIT.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <thread>

#include "catalog/db.h"
#include "catalog/meta.h"
#include "catalog/tasks.h"
#include "testing/catalog_fixture.h"

namespace cairn::catalog {
namespace {

class PostgresTest : public testing::CatalogTest {
 protected:
  void SetUp() override {
    CatalogTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    must("create table t (k text primary key, n bigint)");
  }
  void must(const char* sql) {
    Status status = db().transact([&](Tx& tx) -> Status {
      CAIRN_TRY(Outcome done, tx.exec(sql));
      return ok();
    });
    ASSERT_TRUE(status) << status.error().to_string();
  }
  int64_t rows_in_t() {
    auto rows = db().read([](Tx& tx) { return tx.query("select count(*) from t"); });
    EXPECT_TRUE(rows) << rows.error().to_string();
    return rows ? rows->at(0).integer(0) : -1;
  }
};
INSTANTIATE_TEST_SUITE_P(Catalog, PostgresTest, ::testing::Values(Engine::kPostgres), testing::CatalogTest::engine_name);

Status insert_a(Tx& tx) {
  CAIRN_TRY(Outcome done, tx.exec("insert into t (k, n) values ('a', 1)"));
  return ok();
}

TEST_P(PostgresTest, AConflictingTransactionIsRunAgainFromItsStart) {
  must("insert into t (k, n) values ('a', 1)");
  int calls = 0;
  Status status = db().transact([&](Tx& tx) -> Status {
    CAIRN_TRY(Rows rows, tx.query("select n from t where k = 'a'"));
    if (++calls == 1) std::thread([&] { must("update t set n = 10 where k = 'a'"); }).join();
    CAIRN_TRY(int64_t swapped, tx.update("update t set n = ?1 where k = 'a'", {rows.at(0).integer(0) + 1}));
    EXPECT_EQ(swapped, 1);
    return ok();
  });
  ASSERT_TRUE(status) << status.error().to_string();
  EXPECT_EQ(calls, 2);
  auto rows = db().read([](Tx& tx) { return tx.query("select n from t where k = 'a'"); });
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows->at(0).integer(0), 11);
  EXPECT_EQ(db().retries(), 1u);
}

TEST_P(PostgresTest, AStepAndATakeOverCannotBothCommitUnseen) {
  auto old = db().transact([&](Tx& tx) { return take_task(tx, "gc", "a", seconds(10)); });
  ASSERT_TRUE(old && *old);
  run_time(seconds(20));
  int calls = 0;
  Status step = db().transact([&](Tx& tx) -> Status {
    CAIRN_TRY(int64_t seen, epoch(tx));  // takes the snapshot
    (void)seen;
    if (++calls == 1) {
      std::thread([&] {
        auto taken = db().transact([&](Tx& other) { return take_task(other, "gc", "b", minutes(1)); });
        EXPECT_TRUE(taken && *taken);
      }).join();
    }
    return hold_task(tx, **old, minutes(1));
  });
  ASSERT_FALSE(step);
  EXPECT_EQ(step.error().code(), Code::kLeaseLost);
  EXPECT_EQ(calls, 2);
}

TEST_P(PostgresTest, ABackendKilledAtCommitIsAnUnknownOutcome) {
  // Runs within COMMIT, after the last statement was answered.
  must("create function die() returns trigger language plpgsql as"
       " 'begin perform pg_terminate_backend(pg_backend_pid()); perform pg_sleep(1); return null; end'");
  must("create constraint trigger die after insert on t deferrable initially deferred for each row execute function die()");
  int calls = 0;
  Status status = db().transact([&](Tx& tx) {
    ++calls;
    return insert_a(tx);
  });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::kOutcomeUnknown) << status.error().to_string();
  EXPECT_EQ(calls, 1);  // never run again by itself
  EXPECT_EQ(rows_in_t(), 0);
}

TEST_P(PostgresTest, ADeferredConstraintAtCommitIsAPlainFailure) {
  must("create table child (k text references t (k) deferrable initially deferred)");
  Status status = db().transact([&](Tx& tx) -> Status {
    CAIRN_TRY(Outcome done, tx.exec("insert into child (k) values ('nobody')"));
    return ok();
  });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::kInternal);
  EXPECT_NE(status.error().message().find("child_k_fkey"), std::string::npos) << status.error().to_string();
  EXPECT_EQ(status.error().message().find("nobody"), std::string::npos) << status.error().to_string();
}

TEST_P(PostgresTest, AConnectionLostBeforeCommitIsReplacedAndTheTransactionRunsAgain) {
  int calls = 0;
  Status status = db().transact([&](Tx& tx) -> Status {
    CAIRN_CHECK_OK(insert_a(tx));
    if (++calls == 1) {
      CAIRN_TRY(Outcome killed, tx.exec("select 1 from pg_terminate_backend(pg_backend_pid())"));
    }
    return ok();
  });
  ASSERT_TRUE(status) << status.error().to_string();
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(rows_in_t(), 1);
}

TEST_P(PostgresTest, IdleConnectionsThatDiedAreNotNoticedByTheCaller) {
  EXPECT_EQ(rows_in_t(), 0);
  auto other = Db::open(url());
  ASSERT_TRUE(other);
  Status killed = (*other)->transact([](Tx& tx) -> Status {
    CAIRN_TRY(Outcome done, tx.exec("select count(*) from (select pg_terminate_backend(pid) from pg_stat_activity"
                                    " where pid <> pg_backend_pid() and application_name = 'cairn') x"));
    return ok();
  });
  ASSERT_TRUE(killed) << killed.error().to_string();
  EXPECT_EQ(rows_in_t(), 0);
  Status status = db().transact(insert_a);
  EXPECT_TRUE(status) << status.error().to_string();
}

// A Unix socket between client and server that hangs up on the client after the server answered its COMMIT.
class CommitEater {
 public:
  CommitEater(std::string server_folder, std::string folder) : server_(std::move(server_folder)), folder_(std::move(folder)) {
    std::filesystem::create_directories(folder_);
    listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address = address_in(folder_);
    CAIRN_CHECK(::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    CAIRN_CHECK(::listen(listener_, 8) == 0);
    thread_ = std::thread([this] { serve(); });
  }
  ~CommitEater() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
    std::filesystem::remove_all(folder_);
  }
  CommitEater(const CommitEater&) = delete;
  CommitEater& operator=(const CommitEater&) = delete;

 private:
  static sockaddr_un address_in(const std::string& folder) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::string path = folder + "/.s.PGSQL.5432";
    CAIRN_CHECK(path.size() < sizeof address.sun_path);
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    return address;
  }
  void serve() {
    for (;;) {
      int client = ::accept(listener_, nullptr, nullptr);
      if (client < 0) return;
      int server = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
      sockaddr_un address = address_in(server_);
      if (::connect(server, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) relay(client, server);
      ::close(client);
      ::close(server);
    }
  }
  static void relay(int client, int server) {
    constexpr std::string_view kCommit("commit\0", 7);
    std::array<char, 65536> buffer;
    bool commit = false;
    for (;;) {
      pollfd sockets[2] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
      if (::poll(sockets, 2, 10'000) <= 0) return;
      if (sockets[0].revents != 0) {
        ssize_t n = ::read(client, buffer.data(), buffer.size());
        if (n <= 0 || ::send(server, buffer.data(), static_cast<size_t>(n), MSG_NOSIGNAL) != n) return;
        commit = std::string_view(buffer.data(), static_cast<size_t>(n)).find(kCommit) != std::string_view::npos;
      }
      if (sockets[1].revents != 0) {
        ssize_t n = ::read(server, buffer.data(), buffer.size());
        if (n <= 0 || commit) return;  // the answer to COMMIT ends here
        if (::send(client, buffer.data(), static_cast<size_t>(n), MSG_NOSIGNAL) != n) return;
      }
    }
  }

  std::string server_;
  std::string folder_;
  int listener_ = -1;
  std::thread thread_;
};

TEST_P(PostgresTest, AnAnswerLostAfterCommitIsUnknownAndTheRowsTellTheTruth) {
  size_t host = url().find("host=/");
  if (host == std::string::npos) GTEST_SKIP() << "the server is not reached through a Unix socket";
  size_t end = std::min(url().find('&', host), url().size());
  std::string server_folder = url().substr(host + 5, end - host - 5);
  std::string folder = "/tmp/cairn-eat-" + Id<struct EatTag>::random(system_random()).hex().substr(0, 12);
  CommitEater eater(server_folder, folder);
  {
    auto through = Db::open(url().substr(0, host + 5) + folder + url().substr(end));
    ASSERT_TRUE(through) << through.error().to_string();
    Status status = (*through)->transact(insert_a);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), Code::kOutcomeUnknown) << status.error().to_string();
  }
  EXPECT_EQ(rows_in_t(), 1);
}

}  // namespace
}  // namespace cairn::catalog
