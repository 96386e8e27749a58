// From catalog rows to what this module tells others. Private to volume/.
#pragma once

#include <string>
#include <string_view>

#include "catalog/leases.h"
#include "catalog/snapshots.h"
#include "catalog/volumes.h"
#include "store/types.h"
#include "volume/leases.h"
#include "volume/volumes.h"

namespace cairn::volume {

// One instant as the catalog tells it.
struct Instant {
  Time now;
  catalog::LeaseTime lease_now;
};
Result<Instant> instant(Context& context, catalog::Tx& tx);

SnapshotInfo snapshot_info(const catalog::SnapshotRow& row);
Result<VolumeInfo> volume_info(const catalog::VolumeRow& row);
LeaseSummary lease_summary(const catalog::LeaseRow& row, const Instant& at);
Result<store::RootRef> root_of(const catalog::SnapshotRow& row);
std::string root_text(const store::RootRef& root);

std::string secret_hash(std::string_view secret);

Error volume_not_found(std::string_view name);
// Names the volume and the command that lists its snapshots, or (side) what was kept aside.
Error snapshot_not_found(catalog::Tx& tx, VolumeId id, int64_t number, bool side = false);
// volume_not_found unless the volume is there in state created.
Result<catalog::VolumeRow> created_volume(catalog::Tx& tx, VolumeId id);
Result<catalog::VolumeRow> created_volume(catalog::Tx& tx, UserId owner, std::string_view name);

// The command that ends what a lease of this kind stands for.
std::string ending_hint(std::string_view kind, std::string_view volume_name, std::string_view holder);
// lease_lost, naming who has the lease of that volume now.
Error lease_lost(catalog::Tx& tx, const catalog::LeaseRow& lease);

}  // namespace cairn::volume
