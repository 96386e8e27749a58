// A parameterised fixture for everything that works on a catalog: each test runs on a fresh SQLite file and on a fresh
// schema of a real PostgreSQL, both migrated, with a clock that moves only when told to.
//
//   using VolumesTest = cairn::testing::CatalogTest;
//   CAIRN_INSTANTIATE_CATALOG(VolumesTest);
//   TEST_P(VolumesTest, NamesAreUnique) { ASSERT_TRUE(db().transact([&](Tx& tx) -> Status { … })); }
//
// PostgreSQL is found by CAIRN_TEST_POSTGRES (scripts/with-postgres.sh sets it); without it those tests are skipped.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/ids.h"
#include "base/random.h"
#include "catalog/catalog_clock.h"
#include "catalog/db.h"
#include "catalog/migrations.h"

namespace cairn::testing {

class CatalogTest : public ::testing::TestWithParam<catalog::Engine> {
 public:
  static std::string engine_name(const ::testing::TestParamInfo<catalog::Engine>& info) {
    return info.param == catalog::Engine::kSqlite ? "Sqlite" : "Postgres";
  }

 protected:
  void SetUp() override {
    const char* postgres = std::getenv("CAIRN_TEST_POSTGRES");
    if (GetParam() == catalog::Engine::kPostgres && (postgres == nullptr || *postgres == '\0')) {
      GTEST_SKIP() << "SKIPPED: CAIRN_TEST_POSTGRES is not set; run under scripts/with-postgres.sh";
    }
    std::string unique = Id<struct CatalogTestTag>::random(system_random()).hex();
    if (GetParam() == catalog::Engine::kSqlite) {
      directory_ = std::filesystem::temp_directory_path() / ("cairn-catalog-" + unique);
      std::filesystem::create_directories(directory_);
      url_ = "sqlite:" + (directory_ / "catalog.db").string();
    } else {
      schema_ = "t" + unique;
      server_url_ = postgres;
      char separator = server_url_.find('?') == std::string::npos ? '?' : '&';
      url_ = server_url_ + separator + "options=-csearch_path%3D" + schema_;
      run_on_server("create schema " + schema_);
    }
    auto opened = catalog::Db::open(url_);
    ASSERT_TRUE(opened) << opened.error().to_string();
    db_ = *std::move(opened);
    if (!migrated()) return;
    Status status = catalog::migrate(*db_, clock_);
    ASSERT_TRUE(status) << status.error().to_string();
    auto stamp = catalog_clock_.stamp(*db_);
    ASSERT_TRUE(stamp) << stamp.error().to_string();
  }

  void TearDown() override {
    db_.reset();
    if (!schema_.empty()) run_on_server("drop schema " + schema_ + " cascade");
    if (!directory_.empty()) std::filesystem::remove_all(directory_);
  }

  // Overridden by tests that want an empty catalog.
  virtual bool migrated() const { return true; }

  catalog::Db& db() { return *db_; }
  ManualClock& clock() { return clock_; }
  catalog::CatalogClock& catalog_clock() { return catalog_clock_; }
  SeededRandom& random() { return random_; }
  // For a second Db on the same catalog (another server).
  const std::string& url() const { return url_; }
  bool is_postgres() const { return GetParam() == catalog::Engine::kPostgres; }

  // Lets time pass as it does while a server runs: with a stamp every ten seconds, so that lease time moves too.
  // `clock().advance(…)` alone is an outage: leases do not expire in it.
  void run_time(Duration duration) {
    while (duration > Duration(0)) {
      Duration step = std::min<Duration>(duration, catalog::CatalogClock::kStampEvery);
      clock_.advance(step);
      duration -= step;
      auto stamp = catalog_clock_.stamp(*db_);
      ASSERT_TRUE(stamp) << stamp.error().to_string();
    }
  }

 private:
  void run_on_server(const std::string& sql) {
    auto server = catalog::Db::open(server_url_);
    ASSERT_TRUE(server) << server.error().to_string();
    Status status = (*server)->transact([&](catalog::Tx& tx) -> Status {
      CAIRN_TRY(catalog::Outcome done, tx.exec(sql));
      return ok();
    });
    ASSERT_TRUE(status) << status.error().to_string();
  }

  std::filesystem::path directory_;
  std::string schema_;
  std::string server_url_;
  std::string url_;
  ManualClock clock_;
  SeededRandom random_{1};
  catalog::CatalogClock catalog_clock_{clock_};
  std::unique_ptr<catalog::Db> db_;
};

#define CAIRN_INSTANTIATE_CATALOG(Suite)                                                                       \
  INSTANTIATE_TEST_SUITE_P(Catalog, Suite,                                                                     \
                           ::testing::Values(::cairn::catalog::Engine::kSqlite, ::cairn::catalog::Engine::kPostgres), \
                           ::cairn::testing::CatalogTest::engine_name)

}  // namespace cairn::testing
