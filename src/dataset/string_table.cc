#include "dataset/string_table.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace cairn::dataset {
namespace {

uint64_t mix(uint64_t value) {
  value *= 0x9E3779B97F4A7C15u;
  return value ^ value >> 29;
}

}  // namespace

uint64_t StringTable::hash_of(std::string_view text) {
  uint64_t hash = text.size();
  size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + i, 8);
    hash = mix(hash ^ word) + word;
  }
  uint64_t word = 0;
  if (i < text.size()) std::memcpy(&word, text.data() + i, text.size() - i);
  return mix(mix(hash ^ word));
}

void StringTable::reserve(size_t count, size_t bytes) {
  bytes_.reserve(bytes);
  begins_.reserve(count + 1);
  grow(std::bit_ceil(count * 2 + 16));
}

void StringTable::clear() {
  bytes_.clear();
  begins_.resize(1);
  std::fill(slots_.begin(), slots_.end(), 0);
}

void StringTable::grow(size_t slots) {
  if (slots <= slots_.size()) return;
  slots_.assign(slots, 0);
  for (uint32_t number = 0; number < size(); ++number) {
    size_t slot = hash_of((*this)[number]) & (slots - 1);
    while (slots_[slot] != 0) slot = (slot + 1) & (slots - 1);
    slots_[slot] = number + 1;
  }
}

// The slot that holds `text`, or the free one where it would go.
size_t StringTable::slot_of(std::string_view text, uint64_t hash) const {
  size_t slot = hash & (slots_.size() - 1);
  while (slots_[slot] != 0 && (*this)[slots_[slot] - 1] != text) slot = (slot + 1) & (slots_.size() - 1);
  return slot;
}

uint32_t StringTable::find(std::string_view text) const {
  if (slots_.empty()) return kNoId;
  const uint32_t entry = slots_[slot_of(text, hash_of(text))];
  return entry != 0 ? entry - 1 : kNoId;
}

uint32_t StringTable::add(std::string_view text, uint64_t hash) {
  if ((begins_.size() + 1) * 2 > slots_.size()) grow(std::max<size_t>(64, slots_.size() * 2));
  const size_t slot = slot_of(text, hash);
  if (slots_[slot] != 0) return slots_[slot] - 1;
  bytes_.append(text);
  begins_.push_back(bytes_.size());
  slots_[slot] = size();
  return size() - 1;
}

}  // namespace cairn::dataset
