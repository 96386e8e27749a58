// The volumes of one attempt on this node: staged, and mounted (or copied) so that the sandbox can bind them. Mounting again after
// a kill finds the same uppers. The mounts live in the caller's mount namespace.
//
// Not thread-safe.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "agent/journal.h"
#include "agent/volume_io.h"
#include "base/deadline.h"
#include "base/result.h"

namespace cairn::agent {

struct AttemptMount {
  api::MountGrant grant;
  size_t index = 0;  // in the journal: m<index>/
  bool workspace = false;
  std::string lower;   // the staged folder
  std::string merged;  // what the run sees
  std::string upper;   // empty: read-only, or a plain copy
  std::string manifest;
  bool plain_copy = false;
  uint64_t staged_bytes = 0;
  transfer::StagedLower staged;  // keeps the lower from being evicted

  bool writable() const { return grant.upload.has_value(); }
};

class AttemptMounts {
 public:
  // `may_mount` false: volumes are copied, no overlay is tried.
  AttemptMounts(Journal& journal, VolumeIo& volumes, bool may_mount = true)
      : journal_(journal), volumes_(volumes), may_mount_(may_mount) {}
  ~AttemptMounts();
  AttemptMounts(const AttemptMounts&) = delete;
  AttemptMounts& operator=(const AttemptMounts&) = delete;

  // Stages and mounts all of the attempt's volumes. `recovering`: only the writable ones, over the uppers that are there.
  // `say` tells what is being done. In the journal's state only `plain_copy` may change.
  Status bring_up(bool recovering, const std::function<void(const std::string&)>& say, const Deadline& deadline);
  // Best effort.
  void take_down();

  const std::vector<AttemptMount>& all() const { return mounts_; }
  // The one that takes the outputs, or null.
  const AttemptMount* primary() const;
  const AttemptMount* workspace() const;

 private:
  Status bring_up_one(AttemptMount mount, bool recovering, const Deadline& deadline);
  Status mount_writable(AttemptMount& mount, bool recovering, const Deadline& deadline);

  Journal& journal_;
  VolumeIo& volumes_;
  bool may_mount_;
  std::vector<AttemptMount> mounts_;
};

// Copies a file that may be large; `to` appears whole and durable.
Status copy_file(const std::string& from, const std::string& to);

}  // namespace cairn::agent
