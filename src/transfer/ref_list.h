// The chunks of one file while they are being found, filled in any order. Up to kInMemory they stand in memory, more in a scratch
// file, so that a file of any length needs bounded memory.
//
// set() is thread-safe; the rest belongs to one thread, after all set() calls.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "os/fd.h"
#include "store/types.h"

namespace cairn::transfer {

class RefList {
 public:
  static constexpr uint64_t kInMemory = 65'536;

  explicit RefList(std::string scratch_dir, uint64_t in_memory = kInMemory)
      : scratch_dir_(std::move(scratch_dir)), in_memory_(in_memory) {}

  Status set(uint64_t index, const store::ChunkRef& ref);
  uint64_t count() const { return count_; }
  // At most 4,096 of them from `first`; fewer only at the end.
  Result<std::vector<store::ChunkRef>> read(uint64_t first) const;
  void clear();

 private:
  std::string scratch_dir_;
  uint64_t in_memory_;
  mutable std::mutex mutex_;
  std::vector<store::ChunkRef> refs_;
  os::Fd file_;  // refs from in_memory_ on
  uint64_t count_ = 0;
};

}  // namespace cairn::transfer
