// The table `pins`: who is reading a snapshot, and until when if he is not heard of again (in lease time, so that an
// outage ends no pin).
//
// Typed statements inside the caller's transaction; whoever inserts a pin guards the snapshot's row too.
#pragma once

#include <optional>
#include <string>

#include "catalog/catalog_clock.h"
#include "catalog/db.h"

namespace cairn::catalog {

struct PinRow {
  PinId id;
  VolumeId volume;
  int64_t number = 0;
  std::string purpose;
  Time created;
  LeaseTime expires_lease;
};

namespace pins {

Status insert(Tx& tx, const PinRow& row);
// Live ones of readers: not those of uploads ("upload ID") and of attempts ("run-ID.N"), which end with their owners.
Result<int64_t> count_readers(Tx& tx, VolumeId volume);
// The reader's pin that was not renewed for longest, if it would expire at `expires` or before. True when there was one.
Result<bool> remove_idlest_reader(Tx& tx, VolumeId volume, LeaseTime expires);
// Live ones only.
Result<std::optional<PinRow>> find(Tx& tx, PinId id);
// False when it is dead.
Result<bool> renew(Tx& tx, PinId id, LeaseTime expires);
Result<std::optional<PinRow>> find_by_purpose(Tx& tx, VolumeId volume, const std::string& purpose);
Result<bool> remove(Tx& tx, PinId id);
// Of uploads that are over.
Status remove_of_ended_uploads(Tx& tx);
Status remove_by_purpose(Tx& tx, VolumeId volume, const std::string& purpose);
Result<int64_t> remove_dead(Tx& tx);
Status remove_of_volume(Tx& tx, VolumeId volume);

}  // namespace pins
}  // namespace cairn::catalog
