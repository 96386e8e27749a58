// Named numbers of the whole catalog. The epoch is raised when the catalog and the object store turn out to be of
// different histories (a restored backup, a failover that lost transactions).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "catalog/db.h"

namespace cairn::catalog {

Result<std::optional<int64_t>> get_number(Tx& tx, std::string_view name);
Status set_number(Tx& tx, std::string_view name, int64_t value);
// Adds one and gives the new value; the first is 1. Values are never given twice by committed transactions.
Result<int64_t> next_number(Tx& tx, std::string_view name);

Result<int64_t> epoch(Tx& tx);
// One conditional statement: kBusy when the epoch is no longer `from`. REQUIRES: to > from.
Status raise_epoch(Tx& tx, int64_t from, int64_t to);

}  // namespace cairn::catalog
