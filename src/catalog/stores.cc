#include "catalog/stores.h"

namespace cairn::catalog::stores {
namespace {

constexpr char kColumns[] = "id, owner_user_id, state, epoch, ticket, gc_off, created_us, removing_since_us";

Result<StoreRow> to_store(const Row& row) {
  StoreRow store;
  CAIRN_TRY(store.id, row.id<StoreId>(0));
  CAIRN_TRY(store.owner, row.id<UserId>(1));
  store.state = row.text(2);
  store.epoch = row.integer(3);
  store.ticket = row.integer(4);
  store.gc_off = row.boolean(5);
  store.created = row.time(6);
  store.removing_since = row.maybe_time(7);
  return store;
}

}  // namespace

Status insert(Tx& tx, const StoreRow& row) {
  CAIRN_TRY(int64_t affected,
            tx.update("insert into stores (id, owner_user_id, state, epoch, ticket, gc_off, created_us) "
                      "values (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                      {row.id.hex(), row.owner.hex(), row.state, row.epoch, row.ticket, int64_t{row.gc_off},
                       row.created.us}));
  if (affected != 1) return Error(Code::kInternal, "the store's row was not inserted");
  return ok();
}

Result<std::optional<StoreRow>> find(Tx& tx, StoreId id) {
  CAIRN_TRY(std::optional<Row> row,
            tx.query_one(std::string("select ") + kColumns + " from stores where id = ?1", {id.hex()}));
  if (!row) return std::optional<StoreRow>();
  CAIRN_TRY(StoreRow store, to_store(*row));
  return std::optional<StoreRow>(std::move(store));
}

Result<std::vector<StoreRow>> list(Tx& tx, StoreId after, int64_t limit) {
  CAIRN_TRY(Rows rows, tx.query(std::string("select ") + kColumns + " from stores where id > ?1 order by id limit ?2",
                                {after.hex(), limit}));
  std::vector<StoreRow> stores;
  for (const Row& row : rows) {
    CAIRN_TRY(StoreRow store, to_store(row));
    stores.push_back(std::move(store));
  }
  return stores;
}

Result<int64_t> next_ticket(Tx& tx, StoreId id) {
  CAIRN_TRY(std::optional<Row> row,
            tx.query_one("update stores set ticket = ticket + 1 where id = ?1 and state = 'live' returning ticket",
                         {id.hex()}));
  if (!row) return Error(Code::kVolumeStateConflict, "the store " + id.hex() + " is being removed");
  return row->integer(0);
}

Result<int64_t> owner_bytes(Tx& tx, UserId owner) {
  CAIRN_TRY(std::optional<Row> row, tx.query_one("select cast(coalesce(sum(p.size_bytes), 0) as bigint) from packs p "
                                                 "join stores s on s.id = p.store_id where s.owner_user_id = ?1 "
                                                 "and (p.seal is not null or p.state = 'promised')",
                                                 {owner.hex()}));
  return row ? row->integer(0) : 0;
}

Result<int64_t> stored_bytes(Tx& tx, StoreId id) {
  CAIRN_TRY(
      std::optional<Row> row,
      tx.query_one("select cast(coalesce(sum(size_bytes), 0) as bigint) from packs where store_id = ?1", {id.hex()}));
  return row ? row->integer(0) : 0;
}

Result<bool> begin_removing(Tx& tx, StoreId id, VolumeId last, Time now) {
  CAIRN_TRY(int64_t affected,
            tx.update("update stores set state = 'removing', removing_since_us = ?2 "
                      "where id = ?1 and state = 'live' "
                      "and not exists (select 1 from volumes v where v.store_id = stores.id and v.id <> ?3)",
                      {id.hex(), now.us, last.hex()}));
  return affected == 1;
}

Result<std::vector<StoreRow>> list_removing(Tx& tx, Time since_before, int64_t limit) {
  CAIRN_TRY(Rows rows, tx.query(std::string("select ") + kColumns +
                                    " from stores where state = 'removing' and removing_since_us <= ?1 and not exists "
                                    "(select 1 from volumes v where v.store_id = stores.id) order by id limit ?2",
                                {since_before.us, limit}));
  std::vector<StoreRow> stores;
  for (const Row& row : rows) {
    CAIRN_TRY(StoreRow store, to_store(row));
    stores.push_back(std::move(store));
  }
  return stores;
}

Result<bool> remove(Tx& tx, StoreId id) {
  CAIRN_TRY(int64_t affected, tx.update("delete from stores where id = ?1 and state = 'removing' "
                                        "and not exists (select 1 from packs p where p.store_id = stores.id)",
                                        {id.hex()}));
  return affected == 1;
}

Result<bool> raise_epoch(Tx& tx, StoreId id, int64_t from, int64_t to) {
  CAIRN_TRY(int64_t affected,
            tx.update("update stores set epoch = ?3, gc_off = 1 where id = ?1 and epoch = ?2", {id.hex(), from, to}));
  return affected == 1;
}

Status set_gc_off(Tx& tx, StoreId id, bool off) {
  CAIRN_TRY(int64_t affected, tx.update("update stores set gc_off = ?2 where id = ?1", {id.hex(), int64_t{off}}));
  if (affected != 1) return Error(Code::kVolumeNotFound, "there is no store " + id.hex());
  return ok();
}

}  // namespace cairn::catalog::stores
