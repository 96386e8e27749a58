#include "catalog/migrations.h"

#include <thread>

#include "catalog/dialect.h"
#include "testing/catalog_fixture.h"

namespace cairn::catalog {
namespace {

class MigrationsTest : public testing::CatalogTest {
 protected:
  bool migrated() const override { return false; }
};
CAIRN_INSTANTIATE_CATALOG(MigrationsTest);

constexpr const char* kOne[] = {"create table one (k text primary key, n bigint not null)", "insert into one (k, n) values ('bigint', 1)"};
constexpr const char* kTwo[] = {"create table two (id serial_key, t text not null)"};
constexpr const char* kBroken[] = {"create table three (k text)", "insert into nowhere values (1)"};

TEST_P(MigrationsTest, AllAreAppliedOnceAndAgainIsNothing) {
  EXPECT_EQ(*schema_version(db()), 0);
  for (int i = 0; i < 2; ++i) {
    Status status = migrate(db(), clock());
    ASSERT_TRUE(status) << status.error().to_string();
    EXPECT_EQ(*schema_version(db()), static_cast<int64_t>(migrations().size()));
  }
}

TEST_P(MigrationsTest, LaterOnesAreAddedAndABrokenOneLeavesNothing) {
  std::vector<Migration> list{{1, "one", {kOne}}};
  ASSERT_TRUE(migrate(db(), list));
  list.push_back({2, "two", {kTwo}});
  ASSERT_TRUE(migrate(db(), list));
  list.push_back({3, "three", {kBroken}});
  Status broken = migrate(db(), list);
  ASSERT_FALSE(broken);
  EXPECT_NE(broken.error().message().find("three"), std::string::npos);
  EXPECT_EQ(*schema_version(db()), 2);
  EXPECT_FALSE(db().read([](Tx& tx) { return tx.query("select * from three"); }));
  auto kept = db().read([](Tx& tx) { return tx.query("select n from one where k = 'bigint'"); });
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->size(), 1u);
}

TEST_P(MigrationsTest, ANewerSchemaIsRefused) {
  std::vector<Migration> newer{{1, "one", {kOne}}, {2, "two", {kTwo}}};
  ASSERT_TRUE(migrate(db(), newer));
  newer.pop_back();
  Status status = migrate(db(), newer);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::kFormatUnsupported);
  EXPECT_FALSE(status.error().hint().empty());
}

TEST_P(MigrationsTest, ServersThatStartTogetherMigrateOnce) {
  std::vector<std::thread> servers;
  for (int i = 0; i < 4; ++i) {
    servers.emplace_back([&] {
      auto server = Db::open(url());
      ASSERT_TRUE(server) << server.error().to_string();
      Status status = migrate(**server, clock());
      EXPECT_TRUE(status) << status.error().to_string();
    });
  }
  for (std::thread& server : servers) server.join();
  EXPECT_EQ(*schema_version(db()), static_cast<int64_t>(migrations().size()));
}

TEST(Dialect, ColumnTypesAndPlaceholders) {
  EXPECT_EQ(schema_sql(Engine::kSqlite, "create table a (id serial_key, n bigint, t text default 'text')"),
            "create table a (id integer primary key autoincrement, n integer, t text default 'text') strict");
  EXPECT_EQ(schema_sql(Engine::kPostgres, "create table a (n bigint not null, context text)"),
            "create table a (n bigint not null, context text collate \"C\")");
  EXPECT_EQ(schema_sql(Engine::kSqlite, "create index a_text on a (t)"), "create index a_text on a (t)");
  EXPECT_EQ(*postgres_placeholders("select '?1', \"?2\", ?12 where x = ?1"), "select '?1', \"?2\", $12 where x = $1");
  EXPECT_FALSE(postgres_placeholders("select ?"));
}

}  // namespace
}  // namespace cairn::catalog
