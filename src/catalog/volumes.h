// The table `volumes`. Typed statements inside the caller's transaction; each change is conditional and says whether it
// hit.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "catalog/catalog_clock.h"
#include "catalog/db.h"

namespace cairn::catalog {

struct VolumeRow {
  VolumeId id;
  UserId owner;
  StoreId store;
  std::string name;
  std::string kind = "user";      // user, workspace
  std::string state = "created";  // created, trashed, deleting, delete_failed
  int64_t size_bytes = 0;
  std::string history;
  int64_t head_number = 0;
  int64_t last_number = 0;
  int64_t head_entries = 0;
  int64_t head_files = 0;
  int64_t head_bytes = 0;
  int64_t fence = 0;
  std::string created_by;
  Time created;
  std::optional<Time> trashed;
  std::optional<Time> purge_at;
  std::string delete_error;
};

struct HeadCounts {
  int64_t entries = 0;
  int64_t files = 0;
  int64_t bytes = 0;
};

namespace volumes {

// False when a CREATED volume of that owner and name is there.
Result<bool> insert(Tx& tx, const VolumeRow& row);
Result<std::optional<VolumeRow>> find(Tx& tx, VolumeId id);
Result<std::optional<VolumeRow>> find_by_name(Tx& tx, UserId owner, const std::string& name);
// The one trashed last.
Result<std::optional<VolumeRow>> find_trashed(Tx& tx, UserId owner, const std::string& name);
// User volumes of an owner in any state, by (name, id), after that pair.
Result<std::vector<VolumeRow>> list(Tx& tx, UserId owner, const std::string& after_name, VolumeId after_id,
                                    int64_t limit);
// All volumes in a state, by id.
Result<std::vector<VolumeRow>> list_in_state(Tx& tx, const std::string& state, VolumeId after, int64_t limit);
// Trashed and past their time.
// Workspaces made before `before`, sorted by id after `after`.
Result<std::vector<VolumeRow>> list_workspaces(Tx& tx, Time before, VolumeId after, int64_t limit);
Result<std::vector<VolumeId>> list_purge_due(Tx& tx, Time now, int64_t limit);

// Grows it; false when it is not created or is larger already.
Result<bool> grow(Tx& tx, VolumeId id, int64_t size_bytes);
Result<bool> set_history(Tx& tx, VolumeId id, const std::string& history);
// One more, of a CREATED volume; nothing otherwise. Conflicts with every other change of the volume's row.
Result<std::optional<int64_t>> next_fence(Tx& tx, VolumeId id);

Result<bool> trash(Tx& tx, VolumeId id, Time now, Time purge_at);
Result<bool> undelete(Tx& tx, VolumeId id, const std::string& name);
// From any state but deleting.
Result<bool> begin_deleting(Tx& tx, VolumeId id);
Result<bool> delete_failed(Tx& tx, VolumeId id, const std::string& error);
Result<bool> remove(Tx& tx, VolumeId id);

// The head swap: from head `base` to `number`, which becomes the last number too.
Result<bool> swap_head(Tx& tx, VolumeId id, int64_t base, int64_t number, const HeadCounts& counts);
// Takes `number` for a side snapshot.
Result<bool> take_number(Tx& tx, VolumeId id, int64_t number);

// The right to run a publication: one holder of `claim` per volume until `until`. False while another claim is in its
// time.
Result<bool> claim_publishing(Tx& tx, VolumeId id, RequestId request, const std::string& claim, LeaseTime until);
Result<bool> renew_publishing(Tx& tx, VolumeId id, const std::string& claim, LeaseTime until);
Status release_publishing(Tx& tx, VolumeId id, const std::string& claim);
Status drop_publishing_claims(Tx& tx);

// After an old catalog met a newer store (F7): fence and numbers go past anything that may have been given out.
Status raise_counters(Tx& tx, StoreId store, int64_t by);

}  // namespace volumes
}  // namespace cairn::catalog
