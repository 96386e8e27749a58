// The contract of Db and Tx, the same on SQLite and on a real PostgreSQL.
#include "catalog/db.h"

#include <sys/stat.h>

#include <atomic>
#include <cstdint>
#include <fstream>
#include <thread>

#include "testing/catalog_fixture.h"

namespace cairn::catalog {
namespace {

constexpr char kEndless[] =
    "with recursive c(x) as (select 1 union all select x + 1 from c where x < 1000000000) select count(*) from c";

class DbTest : public testing::CatalogTest {
 protected:
  bool migrated() const override { return false; }
  void SetUp() override {
    CatalogTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    must("create table t (k text primary key, n bigint, constraint n_small check (n < 9223372036854775807 or k = 'max'))");
    must("create table other (k text primary key, n bigint not null)");
  }
  void must(const char* sql, const Values& values = {}) {
    Status status = db().transact([&](Tx& tx) -> Status {
      CAIRN_TRY(Outcome done, tx.exec(sql, values));
      return ok();
    });
    ASSERT_TRUE(status) << status.error().to_string();
  }
  int64_t number(const char* sql) {
    auto rows = db().read([&](Tx& tx) { return tx.query(sql); });
    EXPECT_TRUE(rows) << rows.error().to_string();
    return rows && rows->size() == 1 ? rows->at(0).integer(0) : -1;
  }
};
CAIRN_INSTANTIATE_CATALOG(DbTest);

TEST_P(DbTest, ValuesComeBackAsTheyWent) {
  const std::string text = "naïve ∑ 😀 'quoted' ?1 $1 \\";
  must("insert into t (k, n) values (?1, ?2)", {text, INT64_MIN});
  must("insert into t (k, n) values (?1, ?2)", {"max", INT64_MAX});
  must("insert into t (k, n) values (?1, ?2)", {"", Value()});
  auto rows = db().read([&](Tx& tx) { return tx.query("select k, n, n is null, 7, 'x' from t order by n"); });
  ASSERT_TRUE(rows) << rows.error().to_string();
  ASSERT_EQ(rows->size(), 3u);
  auto by_text = db().read([&](Tx& tx) { return tx.query_one("select n from t where k = ?1", {text}); });
  ASSERT_TRUE(by_text && *by_text);
  EXPECT_EQ((*by_text)->integer(0), INT64_MIN);
  EXPECT_EQ(number("select n from t where k = 'max'"), INT64_MAX);
  EXPECT_EQ(number("select count(*) from t where k = '' and n is null"), 1);
  EXPECT_EQ(number("select case when n is null then 1 else 0 end from t where k = ''"), 1);
}

TEST_P(DbTest, SumsAreInt64AndOverflowIsAnError) {
  must("insert into t (k, n) values ('a', 5000000000), ('b', 6000000000)");
  EXPECT_EQ(number("select sum(n) from t"), 11'000'000'000);
  must("insert into t (k, n) values ('max', 9223372036854775807)");
  auto rows = db().read([&](Tx& tx) { return tx.query("select sum(n) from t"); });
  EXPECT_FALSE(rows);
}

TEST_P(DbTest, AffectedCountsTheStatementsOwnRows) {
  auto status = db().transact([&](Tx& tx) -> Status {
    CAIRN_TRY(Outcome inserted, tx.exec("insert into t (k, n) values ('a', 1), ('b', 2)"));
    EXPECT_EQ(inserted.affected, 2);
    CAIRN_TRY(Outcome again, tx.exec("insert into t (k, n) values ('a', 1) on conflict do nothing"));
    EXPECT_EQ(again.affected, 0);
    CAIRN_TRY(Outcome upsert, tx.exec("insert into t (k, n) values ('a', 5) on conflict (k) do update set n = excluded.n"));
    EXPECT_EQ(upsert.affected, 1);
    CAIRN_TRY(Outcome returning, tx.exec("update t set n = n + 1 returning k, n"));
    EXPECT_EQ(returning.affected, 2);
    EXPECT_EQ(returning.rows.size(), 2u);
    CAIRN_TRY(Outcome none, tx.exec("update t set n = 0 where n = 77"));
    EXPECT_EQ(none.affected, 0);
    CAIRN_TRY(Outcome selected, tx.exec("select * from t"));
    EXPECT_EQ(selected.affected, 0);
    CAIRN_TRY(Outcome removed, tx.exec("delete from t where k = 'a'"));
    EXPECT_EQ(removed.affected, 1);
    return ok();
  });
  ASSERT_TRUE(status) << status.error().to_string();
}

TEST_P(DbTest, NulAndBrokenUtf8AreRefusedAndEndTheTransaction) {
  const std::string bad[] = {std::string("a\0b", 3), "\xff", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "ab\xe2\x82"};
  for (const std::string& text : bad) {
    Status status = db().transact([&](Tx& tx) -> Status {
      CAIRN_TRY(Outcome first, tx.exec("insert into t (k, n) values ('kept?', 1)"));
      Result<Outcome> second = tx.exec("insert into t (k, n) values (?1, 1)", {text});
      EXPECT_FALSE(second);
      return ok();  // a function that ignores the error does not get its first half committed
    });
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), Code::kRequestInvalid);
    EXPECT_EQ(number("select count(*) from t"), 0);
  }
}

TEST_P(DbTest, AnErrorRollsEverythingBack) {
  Status own = db().transact([&](Tx& tx) -> Status {
    CAIRN_TRY(Outcome first, tx.exec("insert into t (k, n) values ('a', 1)"));
    return Error(Code::kVolumeInUse, "not today");
  });
  EXPECT_EQ(own.error().code(), Code::kVolumeInUse);
  Status swallowed = db().transact([&](Tx& tx) -> Status {
    CAIRN_TRY(Outcome first, tx.exec("insert into t (k, n) values ('a', 1)"));
    EXPECT_FALSE(tx.exec("insert into t (k, n) values ('a', 2)"));
    Result<Outcome> after = tx.exec("select 1");
    EXPECT_FALSE(after);
    return ok();
  });
  EXPECT_FALSE(swallowed);
  EXPECT_EQ(number("select count(*) from t"), 0);
}

TEST_P(DbTest, ErrorsNameTheConstraintAndNeverTheValue) {
  must("insert into t (k, n) values ('hunter2', 1)");
  auto insert = [&](const char* sql, const Values& values) {
    return db().transact([&](Tx& tx) -> Status {
      CAIRN_TRY(Outcome done, tx.exec(sql, values));
      return ok();
    });
  };
  Status unique = insert("insert into t (k, n) values (?1, 1)", {"hunter2"});
  ASSERT_FALSE(unique);
  EXPECT_EQ(unique.error().to_string().find("hunter2"), std::string::npos) << unique.error().to_string();
  Status check = insert("insert into t (k, n) values (?1, ?2)", {"hunter2b", INT64_MAX});
  ASSERT_FALSE(check);
  EXPECT_NE(check.error().to_string().find("n_small"), std::string::npos) << check.error().to_string();
  EXPECT_EQ(check.error().to_string().find("hunter2"), std::string::npos);
  Status type = insert("insert into other (k, n) values ('a', cast(?1 as bigint) / 0)", {int64_t{31337}});
  EXPECT_FALSE(type);
  EXPECT_EQ(type ? "" : type.error().to_string().find("31337") == std::string::npos ? "" : type.error().to_string(), "");
  EXPECT_FALSE(insert("insert into nowhere values (1)", {}));
  EXPECT_FALSE(insert("select 1; select 2", {}));
  EXPECT_FALSE(insert("insert into t (k, n) values (?1, ?2)", {"too few"}));
}

TEST_P(DbTest, AReaderSeesOneSnapshotAndCannotWrite) {
  must("insert into t (k, n) values ('a', 1)");
  auto seen = db().read([&](Tx& tx) -> Result<int64_t> {
    CAIRN_TRY(Rows before, tx.query("select n from t where k = 'a'"));
    std::thread writer([&] { must("update t set n = 2 where k = 'a'"); });
    writer.join();
    CAIRN_TRY(Rows after, tx.query("select n from t where k = 'a'"));
    EXPECT_EQ(before.at(0).integer(0), after.at(0).integer(0));
    return after.at(0).integer(0);
  });
  ASSERT_TRUE(seen) << seen.error().to_string();
  EXPECT_EQ(*seen, 1);
  EXPECT_EQ(number("select n from t where k = 'a'"), 2);
  Status written = db().read([&](Tx& tx) -> Status {
    CAIRN_TRY(Outcome done, tx.exec("update t set n = 3"));
    return ok();
  });
  EXPECT_FALSE(written);
  EXPECT_EQ(number("select n from t where k = 'a'"), 2);
}

TEST_P(DbTest, EightThreadsOfConditionalUpdatesLoseNothing) {
  must("insert into t (k, n) values ('a', 0)");
  constexpr int kThreads = 8, kEach = 50;
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < kEach; ++k) {
        Status status = db().transact([&](Tx& tx) -> Status {
          CAIRN_TRY(Rows rows, tx.query("select n from t where k = 'a'"));
          int64_t n = rows.at(0).integer(0);
          CAIRN_TRY(int64_t swapped, tx.update("update t set n = ?1 where k = 'a' and n = ?2", {n + 1, n}));
          EXPECT_EQ(swapped, 1);
          return ok();
        });
        if (!status) ++failed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed.load(), 0);
  EXPECT_EQ(number("select n from t where k = 'a'"), kThreads * kEach);
}

TEST_P(DbTest, TwoPoolsOnOneCatalogAreTwoServers) {
  must("insert into t (k, n) values ('a', 0)");
  auto second = Db::open(url());
  ASSERT_TRUE(second);
  auto add = [](Db& server) {
    for (int i = 0; i < 100; ++i) {
      Status status = server.transact([&](Tx& tx) -> Status {
        CAIRN_TRY(int64_t changed, tx.update("update t set n = n + 1 where k = 'a'"));
        return changed == 1 ? ok() : Status(Error(Code::kInternal, "no row"));
      });
      EXPECT_TRUE(status) << status.error().to_string();
    }
  };
  std::thread other([&] { add(**second); });
  add(db());
  other.join();
  EXPECT_EQ(number("select n from t where k = 'a'"), 200);
}

TEST_P(DbTest, ADeadlineEndsARunningStatement) {
  for (bool write : {false, true}) {
    Deadline deadline = Deadline::after(milliseconds(100));
    auto count = [&](Tx& tx) { return tx.query(kEndless); };
    auto rows = write ? db().transact(count, deadline) : db().read(count, deadline);
    ASSERT_FALSE(rows);
    EXPECT_EQ(rows.error().code(), Code::kDeadlineExceeded) << rows.error().to_string();
  }
  CancelToken token;
  std::thread canceller([&] {
    system_clock().sleep_for(milliseconds(100));
    token.cancel();
  });
  auto rows = db().read([&](Tx& tx) { return tx.query(kEndless); }, Deadline::never(token));
  canceller.join();
  ASSERT_FALSE(rows);
  EXPECT_EQ(rows.error().code(), Code::kCancelled) << rows.error().to_string();
  EXPECT_EQ(number("select 1"), 1);  // the connection serves on
}

TEST_P(DbTest, AFullPoolMakesCallersWaitUntilTheirDeadline) {
  DbOptions options;
  options.connections_max = 1;
  auto small = Db::open(url(), options);
  ASSERT_TRUE(small);
  Status outer = (*small)->read([&](Tx&) -> Status {
    std::thread waiting([&] {
      auto rows = (*small)->read([](Tx& tx) { return tx.query("select 1"); }, Deadline::after(milliseconds(50)));
      EXPECT_FALSE(rows);
      EXPECT_EQ(rows ? Code::kInternal : rows.error().code(), Code::kDeadlineExceeded);
    });
    waiting.join();
    return ok();
  });
  EXPECT_TRUE(outer);
  EXPECT_TRUE((*small)->read([](Tx& tx) { return tx.query("select 1"); }));
}

TEST_P(DbTest, MoreStatementsThanTheCacheHolds) {
  Status status = db().read([&](Tx& tx) -> Status {
    for (int64_t i = 0; i < 600; ++i) {
      CAIRN_TRY(Rows rows, tx.query("select " + std::to_string(i) + " + ?1", {i}));
      EXPECT_EQ(rows.at(0).integer(0), 2 * i);
    }
    return ok();
  });
  EXPECT_TRUE(status) << status.error().to_string();
}

TEST_P(DbTest, TextsOrderByBytesAndUnsupportedTypesAreErrors) {
  must(is_postgres() ? "create table names (k text collate \"C\" primary key)" : "create table names (k text primary key)");
  must("insert into names (k) values ('b'), ('B'), ('a-b'), ('aa')");
  auto rows = db().read([&](Tx& tx) { return tx.query("select k from names order by k"); });
  ASSERT_TRUE(rows);
  std::string all;
  for (const Row& row : *rows) all += row.text(0) + " ";
  EXPECT_EQ(all, "B a-b aa b ");
  EXPECT_FALSE(db().read([&](Tx& tx) { return tx.query("select cast(1.5 as real)"); }));
}

TEST(DbOpen, RefusesWhatItCannotServe) {
  EXPECT_EQ(Db::open("").error().code(), Code::kConfigInvalid);
  EXPECT_EQ(Db::open("sqlite:").error().code(), Code::kConfigInvalid);
  EXPECT_EQ(Db::open(":memory:").error().code(), Code::kConfigInvalid);
  EXPECT_EQ(Db::open("mysql://somewhere/db").error().code(), Code::kConfigInvalid);
  EXPECT_EQ(Db::open("/nonexistent/folder/catalog.db").error().code(), Code::kFileNotFound);
  auto bad_url = Db::open("postgresql://user:s3cret@host:%zz/db");
  ASSERT_FALSE(bad_url);
  EXPECT_EQ(bad_url.error().to_string().find("s3cret"), std::string::npos);
  DbOptions quick;
  quick.connect_timeout = seconds(2);
  auto nobody = Db::open("postgresql://user:s3cret@127.0.0.1:1/db", quick);
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().code(), Code::kCatalogUnavailable);
  EXPECT_EQ(nobody.error().to_string().find("s3cret"), std::string::npos) << nobody.error().to_string();
}

TEST(DbOpen, ASqliteFileIsPrivateAndDamageIsNamed) {
  std::filesystem::path directory =
      std::filesystem::temp_directory_path() / ("cairn-open-" + Id<struct TestTag>::random(system_random()).hex());
  std::filesystem::create_directories(directory);
  std::string path = directory / "catalog.db";
  {
    auto db = Db::open(path);
    ASSERT_TRUE(db) << db.error().to_string();
    EXPECT_EQ((*db)->display_name(), path);
    struct stat info{};
    ASSERT_EQ(::stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
  }
  std::string junk = directory / "junk.db";
  std::ofstream(junk) << std::string(8192, 'j');
  auto damaged = Db::open(junk);
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().code(), Code::kDataCorrupt) << damaged.error().to_string();
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace cairn::catalog
