// The table `snapshots`. A row is a root of garbage collection for as long as it is there: nothing else says so.
// Whoever comes to rely on a row raises its guard in his transaction, so that a concurrent removal of the row conflicts
// with it.
//
// Typed statements inside the caller's transaction.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "catalog/db.h"

namespace cairn::catalog {

struct SnapshotRow {
  VolumeId volume;
  int64_t number = 0;
  std::string root_digest;  // hex
  std::string root_place;   // store::encode_root as hex
  std::optional<PackId> record_pack;
  std::string kind;
  std::string message;
  UserId author;
  std::string author_name;
  int64_t entries = 0;
  int64_t files = 0;
  int64_t bytes = 0;
  int64_t base_number = 0;
  int64_t fence = 0;
  std::optional<UploadId> upload;
  std::optional<LeaseId> lease;
  bool interim = false;
  bool side = false;
  std::string side_label;
  std::string tag;
  Time created;
  std::optional<Time> superseded;
  std::optional<Time> expires;
};

namespace snapshots {

// False when the number is taken.
Result<bool> insert(Tx& tx, const SnapshotRow& row);
Result<std::optional<SnapshotRow>> find(Tx& tx, VolumeId volume, int64_t number);
// False when there is no such row (any more).
Result<bool> guard(Tx& tx, VolumeId volume, int64_t number);
// Below `before`, newest first. `all`: interim ones, side ones and number 0 too.
Result<std::vector<SnapshotRow>> list(Tx& tx, VolumeId volume, int64_t before, bool all, int64_t limit);
Result<std::vector<SnapshotRow>> list_side(Tx& tx, VolumeId volume, int64_t limit);
// Every row of every volume of a store, by (volume, number).
Result<std::vector<SnapshotRow>> list_of_store(Tx& tx, StoreId store, VolumeId after_volume, int64_t after_number,
                                               int64_t limit);
Status supersede(Tx& tx, VolumeId volume, int64_t number, Time now);
Result<bool> set_tag(Tx& tx, VolumeId volume, int64_t number, const std::string& tag);

// Removal by retention; each leaves heads, tagged and pinned snapshots, bases of unfinished uploads and of side
// snapshots, and touches CREATED volumes only. All answer how many rows went.
Result<int64_t> retire_interim(Tx& tx, VolumeId volume, Time now);
Result<int64_t> retire_superseded(Tx& tx, VolumeId volume, Time superseded_before, Time now);
// All but the newest `keep` regular ones.
Result<int64_t> retire_beyond(Tx& tx, VolumeId volume, int64_t keep, Time now);
Result<int64_t> retire_side(Tx& tx, VolumeId volume, Time now);

// Ends a side snapshot of a CREATED volume: at once, or where a reader has it pinned with retire_side after him. False,
// and nothing happens, when there is none of that number without a tag.
Result<bool> end_side(Tx& tx, VolumeId volume, int64_t number, Time now);
Result<int64_t> remove_of_volume(Tx& tx, VolumeId volume);

}  // namespace snapshots
}  // namespace cairn::catalog
