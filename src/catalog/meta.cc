#include "catalog/meta.h"

namespace cairn::catalog {

Result<std::optional<int64_t>> get_number(Tx& tx, std::string_view name) {
  CAIRN_TRY(std::optional<Row> row, tx.query_one("select value from catalog_meta where name = ?1", {std::string(name)}));
  if (!row) return std::optional<int64_t>();
  return std::optional<int64_t>(row->integer(0));
}

Status set_number(Tx& tx, std::string_view name, int64_t value) {
  CAIRN_TRY(Outcome done, tx.exec("insert into catalog_meta (name, value) values (?1, ?2)"
                                  " on conflict (name) do update set value = excluded.value",
                                  {std::string(name), value}));
  return ok();
}

Result<int64_t> next_number(Tx& tx, std::string_view name) {
  CAIRN_TRY(Rows rows, tx.query("insert into catalog_meta (name, value) values (?1, 1)"
                                " on conflict (name) do update set value = catalog_meta.value + 1 returning value",
                                {std::string(name)}));
  return rows.at(0).integer(0);
}

Result<int64_t> epoch(Tx& tx) {
  CAIRN_TRY(std::optional<int64_t> value, get_number(tx, "epoch"));
  if (!value) return Error(Code::kDataCorrupt, "the catalog has no epoch");
  return *value;
}

Status raise_epoch(Tx& tx, int64_t from, int64_t to) {
  CAIRN_CHECK(to > from);
  CAIRN_TRY(int64_t raised, tx.update("update catalog_meta set value = ?1 where name = 'epoch' and value = ?2", {to, from}));
  if (raised != 1) return Error(Code::kBusy, "another server raised the catalog's epoch").with_hint("Try again.");
  return ok();
}

}  // namespace cairn::catalog
