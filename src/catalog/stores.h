// The table `stores`: one row a deduplication and garbage-collection domain.
//
// Typed statements inside the caller's transaction; no rules of their own. Thread-safe as their Tx is.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "catalog/db.h"

namespace cairn::catalog {

struct StoreRow {
  StoreId id;
  UserId owner;
  std::string state = "live";  // live, removing
  int64_t epoch = 1;
  int64_t ticket = 1;
  bool gc_off = false;
  Time created;
  std::optional<Time> removing_since;
};

namespace stores {

Status insert(Tx& tx, const StoreRow& row);
Result<std::optional<StoreRow>> find(Tx& tx, StoreId id);
// In order of id, after `after`.
Result<std::vector<StoreRow>> list(Tx& tx, StoreId after, int64_t limit);
// The next ticket of a live store; kVolumeStateConflict when it is being removed. Two transactions that take one
// conflict, so they are as if one came after the other.
Result<int64_t> next_ticket(Tx& tx, StoreId id);
// Sum over all pack rows of all stores of an owner, promised ones included; not those of promises that were given up.
Result<int64_t> owner_bytes(Tx& tx, UserId owner);
Result<int64_t> stored_bytes(Tx& tx, StoreId id);
// live → removing when no volume but `last` names it any more; false when one does or it is not live.
Result<bool> begin_removing(Tx& tx, StoreId id, VolumeId last, Time now);
Result<std::vector<StoreRow>> list_removing(Tx& tx, Time since_before, int64_t limit);
// The row of a store under removal that has no pack rows left.
Result<bool> remove(Tx& tx, StoreId id);
// Raises the epoch and turns collection off; false when it was not `from`.
Result<bool> raise_epoch(Tx& tx, StoreId id, int64_t from, int64_t to);
Status set_gc_off(Tx& tx, StoreId id, bool off);

}  // namespace stores
}  // namespace cairn::catalog
