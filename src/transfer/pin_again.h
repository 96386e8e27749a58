// Pins a snapshot again whose pin died (a laptop that slept for a day, a run that is taken up again after a long one): the
// contents of a number never change. Thread-safe.
#pragma once

#include "base/deadline.h"
#include "base/result.h"
#include "transfer/remote.h"

namespace cairn::transfer {

// snapshot_not_found when the snapshot is no longer kept. REQUIRES: `dead.snapshot` is not 0.
inline Result<PinGrant> pin_again(Remote& remote, const PinGrant& dead, const Deadline& deadline) {
  CAIRN_TRY(PinGrant grant, remote.pin(dead.snapshot, deadline));
  if (grant.root == dead.root) return grant;
  (void)remote.unpin(grant.pin, deadline).has_value();
  return Error(Code::kSnapshotNotFound,
               "snapshot " + std::to_string(dead.snapshot) + " of volume " + remote.volume_name() + " has other contents than before",
               "the server was set back to an older state; run the command again");
}

}  // namespace cairn::transfer
