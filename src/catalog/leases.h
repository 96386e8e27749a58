// The table `leases`: who may write to a volume. At most one exclusive row per volume is current (an index says so),
// and no two rows of a volume have the same fence.
//
// Typed statements inside the caller's transaction; whoever grants a lease takes the volume's next fence first, which
// makes two grants of one volume conflict.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "catalog/catalog_clock.h"
#include "catalog/db.h"

namespace cairn::catalog {

struct LeaseRow {
  LeaseId id;
  VolumeId volume;
  std::string mode = "exclusive";
  std::string kind;
  std::string holder;
  UserId user;
  std::string user_name;
  std::string source;
  std::string secret_hash;
  int64_t fence = 0;
  std::string state = "current";
  Time since;
  Time seen;
  LeaseTime seen_lease;
  LeaseTime expires_lease;
  std::string end_reason;
};

namespace leases {

Status insert(Tx& tx, const LeaseRow& row);
Result<std::optional<LeaseRow>> find(Tx& tx, LeaseId id);
Result<std::vector<LeaseRow>> list_current(Tx& tx, VolumeId volume);
// False unless the lease is current and the secret is its own.
Result<bool> heartbeat(Tx& tx, LeaseId id, const std::string& secret_hash, Time now, LeaseTime lease_now,
                       LeaseTime expires);
Result<bool> end(Tx& tx, LeaseId id, Time now, const std::string& reason);
Result<int64_t> end_all(Tx& tx, VolumeId volume, Time now, const std::string& reason);
// Part of a publication: false when it is not current. Counts as a sign of life.
Result<bool> confirm(Tx& tx, LeaseId id, int64_t fence, Time now, LeaseTime lease_now, LeaseTime expires);
Result<int64_t> end_of_store(Tx& tx, StoreId store, Time now, const std::string& reason);
Status remove_of_volume(Tx& tx, VolumeId volume);
// Those that ended before `before` and that no upload names any more.
Result<int64_t> remove_ended(Tx& tx, Time before, int64_t limit);

}  // namespace leases
}  // namespace cairn::catalog
