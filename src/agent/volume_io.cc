#include "agent/volume_io.h"

#include "base/check.h"

namespace cairn::agent {
namespace {

transfer::PinGrant pin_of(const api::Pin& base) {
  transfer::PinGrant pin;
  pin.pin = base.pin;
  pin.snapshot = base.snapshot;
  pin.root = base.root;
  pin.entries = base.entries;
  pin.files = base.files;
  pin.bytes = base.bytes;
  return pin;
}

}  // namespace

Result<transfer::StagedLower> TransferVolumeIo::stage(const api::MountGrant& mount, const std::string& holder,
                                                      transfer::Progress& progress, const Deadline& deadline) {
  std::unique_ptr<transfer::Remote> remote = remotes_(mount.volume);
  CAIRN_TRY(transfer::StagedLower staged, cache_->stage(*remote, pin_of(mount.base), progress, deadline));
  if (!holder.empty()) CAIRN_CHECK_OK(cache_->keep(staged.root, holder));
  return staged;
}

Status TransferVolumeIo::release(const api::MountGrant& mount, const std::string& holder) {
  return cache_->release(mount.base.root, holder);
}

Status TransferVolumeIo::copy(const transfer::StagedLower& lower, const std::string& destination,
                              const std::string& manifest_file, transfer::Progress& progress, const Deadline& deadline) {
  return transfer::copy_lower(lower, destination, manifest_file, jobs_, progress, deadline);
}

Result<transfer::SyncSummary> TransferVolumeIo::sync(const api::MountGrant& mount, const transfer::SyncOptions& options,
                                                     transfer::Progress& progress, const Deadline& deadline) {
  CAIRN_CHECK(mount.upload.has_value());
  std::unique_ptr<transfer::Remote> remote = remotes_(mount.volume);
  transfer::UploadGrant grant;
  grant.upload = mount.upload->upload;
  grant.lease = mount.upload->lease;
  grant.secret = mount.upload->secret;
  grant.fence = mount.upload->fence;
  grant.base = pin_of(mount.upload->base);
  return transfer::sync(*remote, grant, options, progress, deadline);
}

}  // namespace cairn::agent
