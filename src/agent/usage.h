// How much a run has written, and where. All walks go through os/tree.h and follow no link.
//
// Pure reads; thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace cairn::agent {

struct VolumeUse {
  uint64_t live_bytes = 0;     // what the volume would hold if the run ended now
  uint64_t written_bytes = 0;  // of the files the run wrote or changed
  uint64_t written_files = 0;
};
// The staged contents, less what the run removed or replaced, plus what it wrote. An estimate for watching a limit (the sync
// computes the truth); folders that change while they are read are counted as they were seen.
Result<VolumeUse> overlay_use(const std::string& upper, const std::string& lower, uint64_t staged_bytes);
// The plain copy's: everything in it.
Result<VolumeUse> folder_use(const std::string& dir);

struct Loss {
  uint64_t bytes = 0;
  uint64_t files = 0;
  std::multimap<uint64_t, std::string> largest;  // by size, as the run saw them, at most kPathsMax
  static constexpr size_t kPathsMax = 100;

  // The largest first.
  std::vector<std::string> paths() const;
};
// Regular files that hold something below `dir`, which the run saw as `shown_as`; folders named in `except` (relative) are not entered.
Status add_loss(const std::string& dir, const std::string& shown_as, const std::vector<std::string>& except, Loss& loss);

}  // namespace cairn::agent
