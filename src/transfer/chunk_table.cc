#include "transfer/chunk_table.h"

#include <algorithm>
#include <utility>

namespace cairn::transfer {

ChunkTable::ChunkTable(uint64_t bytes_max) : bytes_max_(bytes_max) { clear(); }

void ChunkTable::clear() {
  std::lock_guard lock(mutex_);
  slots_.assign(1024, Slot{});
  count_ = 0;
  full_ = false;
  packs_.clear();
  pack_index_.clear();
  last_index_ = 0;
}

size_t ChunkTable::probe(const codec::Digest& hash) const {
  size_t i = hash.prefix_u64() & (slots_.size() - 1);
  while (slots_[i].pack != 0 && slots_[i].hash != hash) i = (i + 1) & (slots_.size() - 1);
  return i;
}

bool ChunkTable::grow() {
  // While the table is copied both sizes are held.
  if (slots_.size() * 2 * sizeof(Slot) > bytes_max_) return false;
  std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(slots_.size() * 2));
  for (const Slot& slot : old) {
    if (slot.pack != 0) slots_[probe(slot.hash)] = slot;
  }
  return true;
}

void ChunkTable::insert(const store::ChunkRef& chunk) {
  if (count_ * 4 >= slots_.size() * 3 && !grow()) {
    full_ = true;
    return;
  }
  size_t i = probe(chunk.hash);
  if (slots_[i].pack != 0) return;
  if (last_index_ == 0 || chunk.place.pack != last_pack_) {
    auto [at, fresh] = pack_index_.try_emplace(chunk.place.pack, static_cast<uint32_t>(packs_.size() + 1));
    if (fresh) packs_.push_back(chunk.place.pack);
    last_pack_ = chunk.place.pack;
    last_index_ = at->second;
  }
  slots_[i] = Slot{chunk.hash, last_index_, chunk.raw_len, chunk.place.offset, chunk.place.stored_len};
  ++count_;
}

void ChunkTable::add(const store::ChunkRef& chunk) {
  std::lock_guard lock(mutex_);
  insert(chunk);
}

std::optional<store::Place> ChunkTable::find_or_claim(const codec::Digest& hash, uint32_t raw_len) {
  std::unique_lock lock(mutex_);
  while (true) {
    const Slot& slot = slots_[probe(hash)];
    if (slot.pack != 0 && slot.raw_len == raw_len) return store::Place{packs_[slot.pack - 1], slot.offset, slot.stored_len};
    if (claimed_.insert(hash).second) return std::nullopt;
    settled_.wait(lock);
  }
}

void ChunkTable::stored(const store::ChunkRef& chunk) {
  std::lock_guard lock(mutex_);
  insert(chunk);
  claimed_.erase(chunk.hash);
  settled_.notify_all();
}

void ChunkTable::give_up(const codec::Digest& hash) {
  std::lock_guard lock(mutex_);
  claimed_.erase(hash);
  settled_.notify_all();
}

uint64_t ChunkTable::size() const {
  std::lock_guard lock(mutex_);
  return count_;
}

bool ChunkTable::full() const {
  std::lock_guard lock(mutex_);
  return full_;
}

}  // namespace cairn::transfer
