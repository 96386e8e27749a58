// How an executor brings volumes to the node and back: staging through the node cache, the plain copy where no overlay can be
// mounted, and the sync. TransferVolumeIo is the real one; tests put folders in its place.
//
// Used from the executor's main thread only.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "api/types.h"
#include "base/deadline.h"
#include "base/result.h"
#include "transfer/stage.h"
#include "transfer/sync.h"

namespace cairn::agent {

class VolumeIo {
 public:
  virtual ~VolumeIo() = default;

  // The mount's base snapshot as a read-only folder. volume_too_large_for_node and volume_sync_incomplete as in stage.h.
  // With a `holder` (an attempt) it is kept on the node, whoever lives, until released.
  virtual Result<transfer::StagedLower> stage(const api::MountGrant& mount, const std::string& holder,
                                              transfer::Progress& progress, const Deadline& deadline) = 0;
  virtual Status release(const api::MountGrant& mount, const std::string& holder) = 0;
  virtual Status copy(const transfer::StagedLower& lower, const std::string& destination, const std::string& manifest_file,
                      transfer::Progress& progress, const Deadline& deadline) = 0;
  // REQUIRES: mount.upload.
  virtual Result<transfer::SyncSummary> sync(const api::MountGrant& mount, const transfer::SyncOptions& options,
                                             transfer::Progress& progress, const Deadline& deadline) = 0;
};

class TransferVolumeIo final : public VolumeIo {
 public:
  using RemoteFactory = std::function<std::unique_ptr<transfer::Remote>(const std::string& volume)>;
  TransferVolumeIo(std::unique_ptr<transfer::NodeCache> cache, RemoteFactory remotes, unsigned jobs)
      : cache_(std::move(cache)), remotes_(std::move(remotes)), jobs_(jobs) {}
  Result<transfer::StagedLower> stage(const api::MountGrant& mount, const std::string& holder,
                                      transfer::Progress& progress, const Deadline& deadline) override;
  Status release(const api::MountGrant& mount, const std::string& holder) override;
  Status copy(const transfer::StagedLower& lower, const std::string& destination, const std::string& manifest_file,
              transfer::Progress& progress, const Deadline& deadline) override;
  Result<transfer::SyncSummary> sync(const api::MountGrant& mount, const transfer::SyncOptions& options,
                                     transfer::Progress& progress, const Deadline& deadline) override;

 private:
  std::unique_ptr<transfer::NodeCache> cache_;
  RemoteFactory remotes_;
  unsigned jobs_;
};

}  // namespace cairn::agent
