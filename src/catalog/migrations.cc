#include "catalog/migrations.h"

#include <fmt/format.h>

#include "catalog/dialect.h"
#include "catalog/schema.h"

namespace cairn::catalog {

namespace {

constexpr char kCreateTable[] =
    "create table if not exists schema_migrations (number bigint primary key, name text not null, applied_us bigint not null)";

Status create_migrations_table(Db& db) {
  std::string sql = schema_sql(db.engine(), kCreateTable);
  // Two servers that create it at once: PostgreSQL fails one of them in its own tables in spite of "if not exists".
  Status status = ok();
  for (int attempt = 0; attempt < 3; ++attempt) {
    status = db.transact([&](Tx& tx) -> Status {
      CAIRN_TRY(Outcome created, tx.exec(sql));
      return ok();
    });
    if (status) break;
  }
  return status;
}

Result<int64_t> read_version(Tx& tx) {
  CAIRN_TRY(Rows rows, tx.query("select coalesce(max(number), 0) from schema_migrations"));
  return rows.at(0).integer(0);
}

// True when one was applied, false when all are.
Result<bool> apply_next(Tx& tx, const std::vector<Migration>& list, Clock& clock) {
  if (std::string_view lock = migration_lock_sql(tx.engine()); !lock.empty()) {
    CAIRN_TRY(Outcome locked, tx.exec(lock));
  }
  CAIRN_TRY(int64_t version, read_version(tx));
  if (version > static_cast<int64_t>(list.size())) {
    return Error(Code::kFormatUnsupported,
                 fmt::format("the catalog has schema {}, written by a newer Cairn; this one knows up to {}", version, list.size()))
        .with_hint("Start the newer version, or restore a backup of the catalog made by this one.");
  }
  if (version == static_cast<int64_t>(list.size())) return false;
  const Migration& next = list[static_cast<size_t>(version)];
  CAIRN_CHECK(next.number == version + 1);
  for (std::span<const char* const> group : next.statements) {
    for (const char* statement : group) {
      Result<Outcome> done = tx.exec(schema_sql(tx.engine(), statement));
      if (!done) return std::move(done).error().while_doing(fmt::format("applying schema {} ({})", next.number, next.name));
    }
  }
  CAIRN_TRY(Outcome noted, tx.exec("insert into schema_migrations (number, name, applied_us) values (?1, ?2, ?3)",
                                   {next.number, std::string(next.name), clock.now().us}));
  return true;
}

}  // namespace

const std::vector<Migration>& migrations() {
  static const std::vector<Migration> list = {
      {1, "first schema", {core_schema(), storage_schema(), work_schema()}},
      {2, "a clock for removals", {removal_clock_schema()}},
      {3, "uploads that were given up", {given_up_schema()}},
  };
  return list;
}

Status migrate(Db& db, Clock& clock) { return migrate(db, migrations(), clock); }

Status migrate(Db& db, const std::vector<Migration>& list, Clock& clock) {
  CAIRN_CHECK_OK(create_migrations_table(db));
  for (;;) {
    CAIRN_TRY(bool applied, db.transact([&](Tx& tx) { return apply_next(tx, list, clock); }));
    if (!applied) return ok();
  }
}

Result<int64_t> schema_version(Db& db) {
  CAIRN_CHECK_OK(create_migrations_table(db));
  return db.read([](Tx& tx) { return read_version(tx); });
}

}  // namespace cairn::catalog
