// Where the non-blank lines of a file begin, in four bytes a line and a little. Plain data; reading it is thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "base/check.h"

namespace cairn::dataset {

class LineIndex {
 public:
  // REQUIRES: offsets ascend. False when the lines lie too far apart to be held (4 GiB of blank lines between two).
  bool add(uint64_t offset) {
    if (deltas_.size() % kGroup == 0) groups_.push_back(offset);
    uint64_t delta = offset - groups_.back();
    if (delta > UINT32_MAX) return false;
    deltas_.push_back(static_cast<uint32_t>(delta));
    return true;
  }
  uint64_t size() const { return deltas_.size(); }
  // REQUIRES: line < size().
  uint64_t offset(uint64_t line) const {
    CAIRN_CHECK(line < deltas_.size());
    return groups_[line / kGroup] + deltas_[line];
  }
  void shrink() {
    groups_.shrink_to_fit();
    deltas_.shrink_to_fit();
  }

 private:
  static constexpr size_t kGroup = 64;  // lines of at most 16 MiB: 1 GiB
  std::vector<uint64_t> groups_;
  std::vector<uint32_t> deltas_;
};

}  // namespace cairn::dataset
