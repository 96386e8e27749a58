#include "transfer/ref_list.h"

#include <algorithm>
#include <type_traits>

#include "transfer/entry_spool.h"

namespace cairn::transfer {

static_assert(std::is_trivially_copyable_v<store::ChunkRef>);

Status RefList::set(uint64_t index, const store::ChunkRef& ref) {
  std::lock_guard lock(mutex_);
  count_ = std::max(count_, index + 1);
  if (index < in_memory_) {
    if (refs_.size() <= index) refs_.resize(index + 1);
    refs_[index] = ref;
    return ok();
  }
  if (!file_.valid()) {
    CAIRN_TRY(file_, make_scratch_file(scratch_dir_));
  }
  codec::ByteView bytes(reinterpret_cast<const uint8_t*>(&ref), sizeof ref);
  return os::write_all_at(file_.get(), (index - in_memory_) * sizeof ref, bytes, "scratch file");
}

Result<std::vector<store::ChunkRef>> RefList::read(uint64_t first) const {
  constexpr uint64_t kPart = 4096;
  std::vector<store::ChunkRef> part;
  if (first >= count_) return part;
  if (first < in_memory_) {
    uint64_t end = std::min({count_, in_memory_, first + kPart});
    part.assign(refs_.begin() + static_cast<ptrdiff_t>(first), refs_.begin() + static_cast<ptrdiff_t>(end));
    return part;
  }
  part.resize(std::min(kPart, count_ - first));
  std::span<uint8_t> bytes(reinterpret_cast<uint8_t*>(part.data()), part.size() * sizeof(store::ChunkRef));
  CAIRN_TRY(size_t got, os::read_full_at(file_.get(), (first - in_memory_) * sizeof(store::ChunkRef), bytes, "scratch file"));
  if (got != bytes.size()) return Error(Code::kInternal, "a scratch file of chunks is too short");
  return part;
}

void RefList::clear() {
  refs_.clear();
  file_.reset();
  count_ = 0;
}

}  // namespace cairn::transfer
