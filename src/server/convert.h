// The domain's values as wire types.
#pragma once

#include "api/types.h"
#include "volume/leases.h"
#include "volume/publish.h"
#include "volume/reads.h"
#include "volume/uploads.h"
#include "volume/volumes.h"

namespace cairn::server {

api::Volume to_api(const volume::VolumeInfo& info);
api::Snapshot to_api(const volume::SnapshotInfo& info);
api::Pin to_api(const volume::Pinned& pinned);
api::Entry to_api(const volume::EntryInfo& info);
api::Upload to_api(const volume::OpenUpload& upload);
api::Published to_api(const volume::Publication& publication);

}  // namespace cairn::server
