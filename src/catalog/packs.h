// The tables `packs` and `volume_packs`. A pack row goes promised → live → condemned → deleting → away; a touch takes
// condemned back to live; `deleting` is final. Each step is one conditional statement (F1): what it did not hit is the
// answer.
//
// Lists of ids must hold no id twice where a count is compared. Typed statements inside the caller's transaction.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "catalog/db.h"

namespace cairn::catalog {

struct PackRow {
  PackId id;
  StoreId store;
  std::optional<UploadId> upload;
  std::string kind = "data";  // data, changeset, nodes, record
  std::string object_key;
  std::string state = "promised";
  int64_t size_bytes = 0;
  int64_t crc32c = 0;
  std::optional<std::string> seal;  // hex; set by registration
  int64_t frames = 0;
  int64_t index_offset = 0;
  int64_t created_ticket = 0;
  int64_t touched_ticket = 0;
  Time created;
  std::optional<Time> condemned;
  int64_t delete_attempts = 0;
};

namespace packs {

Status insert_promised(Tx& tx, const PackRow& row);
Result<std::optional<PackRow>> find(Tx& tx, PackId id);
// promised → live; false when it was not promised.
Result<bool> register_live(Tx& tx, PackId id, const std::string& seal, int64_t frames, int64_t index_offset);

// promised → condemned, and out of its upload, for one whose object did not come and cannot come any more; false when
// it was not promised.
Result<bool> give_up(Tx& tx, PackId id, Time now);

// Packs of an upload, by id. An empty kind or state is any.
Result<std::vector<PackRow>> list_by_upload(Tx& tx, UploadId upload, const std::string& kind, const std::string& state,
                                            PackId after, int64_t limit);
// Promised data packs of this upload and of the same user's unfinished uploads of the volume.
Result<std::vector<PackRow>> list_completable(Tx& tx, VolumeId volume, UserId user, UploadId upload, Time now,
                                              int64_t limit);
// Takes the registered data packs of the user's closed and lapsed uploads of the volume over to `upload`.
Result<int64_t> adopt(Tx& tx, VolumeId volume, UserId user, UploadId upload, int64_t ticket, Time now);
// The same for single packs.
Result<int64_t> adopt_some(Tx& tx, VolumeId volume, UserId user, UploadId upload, int64_t ticket, Time now,
                           const std::vector<PackId>& ids);

// A registered pack of `store` that `upload` owns or a root of `volume` named; nothing otherwise.
Result<std::optional<PackRow>> find_nameable(Tx& tx, StoreId store, VolumeId volume, UploadId upload, PackId id);

// Live and condemned packs of the store become live with this ticket and leave their upload; answers how many there
// were.
Result<int64_t> touch(Tx& tx, StoreId store, const std::vector<PackId>& ids, int64_t ticket);
// Those that touch would not hit.
Result<std::vector<PackId>> untouchable(Tx& tx, StoreId store, const std::vector<PackId>& ids);
Status detach(Tx& tx, PackId id);

// Packs a mark with `ticket` may condemn if it did not reach them, by id.
Result<std::vector<PackRow>> list_condemnable(Tx& tx, StoreId store, int64_t ticket, Time now, PackId after,
                                              int64_t limit);
Result<int64_t> condemn(Tx& tx, StoreId store, const std::vector<PackId>& ids, int64_t ticket, Time now);
// condemned → deleting of at most `limit` packs condemned at or before `before`; answers how many.
Result<int64_t> begin_deleting(Tx& tx, StoreId store, Time before, int64_t limit);
// All packs of a store under removal.
Result<int64_t> begin_deleting_all(Tx& tx, StoreId store);
Result<std::vector<PackRow>> list_deleting(Tx& tx, StoreId store, PackId after, int64_t limit);
// Ends the row of a `deleting` pack and its volume_packs rows.
Result<bool> remove(Tx& tx, PackId id);
Status delete_failed(Tx& tx, PackId id, const std::string& error);

Status add_to_volume(Tx& tx, VolumeId volume, const std::vector<PackId>& ids);
Result<std::optional<PackRow>> find_of_volume(Tx& tx, VolumeId volume, PackId id);
Status remove_of_volume(Tx& tx, VolumeId volume);

}  // namespace packs
}  // namespace cairn::catalog
