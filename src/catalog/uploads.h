// The table `uploads`: a writer's work on a volume, bound to a lease. open → published | closed | lapsed, each by one
// conditional statement.
//
// Typed statements inside the caller's transaction.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "catalog/catalog_clock.h"
#include "catalog/db.h"

namespace cairn::catalog {

struct UploadRow {
  UploadId id;
  VolumeId volume;
  StoreId store;
  LeaseId lease;
  UserId user;
  std::string source;
  std::string kind;  // upload, run, session, server
  std::string holder;
  std::string state = "open";
  int64_t base_number = 0;
  int64_t published_number = 0;
  int64_t side_number = 0;
  int64_t promised_count = 0;
  Time opened;
  std::optional<Time> keep_until;
};

namespace uploads {

Status insert(Tx& tx, const UploadRow& row);
Result<std::optional<UploadRow>> find(Tx& tx, UploadId id);
// Adds to the promised packs while there are at most `most` of them afterwards; false when not, or when it is not open.
Result<bool> add_promised(Tx& tx, UploadId id, int64_t count, int64_t most);
Status subtract_promised(Tx& tx, UploadId id, int64_t count);
// Ends an open one as published or closed, whichever it is.
Result<bool> close(Tx& tx, UploadId id, Time now, Time keep_until);
// Open uploads of kind upload and server whose lease has ended.
Result<int64_t> lapse_fenced(Tx& tx, VolumeId volume, Time now, Time keep_until);
// Open uploads of kind upload and server whose lease nobody renewed since `seen_before`; their packs are free at once.
Result<int64_t> lapse_abandoned(Tx& tx, LeaseTime seen_before, Time now);
// After a head swap or a side snapshot of an open upload.
Result<bool> published(Tx& tx, UploadId id, int64_t number);
Result<bool> side_published(Tx& tx, UploadId id, int64_t number);
// Whatever upload keeps its changes in this side snapshot goes on without it.
Status forget_side(Tx& tx, VolumeId volume, int64_t number);
// Open uploads that are not kind upload or server, and were not given up: what runs and sessions hold.
Result<std::vector<UploadRow>> list_open(Tx& tx, VolumeId volume, int64_t limit);
// Those of the volume are in nobody's way any more. They stay open: what comes back goes aside as ever.
Result<int64_t> give_up(Tx& tx, VolumeId volume);
Status remove_of_volume(Tx& tx, VolumeId volume);
// Ended ones without packs, past `before`.
Result<int64_t> remove_finished(Tx& tx, Time before, int64_t limit);

}  // namespace uploads
}  // namespace cairn::catalog
