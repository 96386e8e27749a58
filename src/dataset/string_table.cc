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

// Loads of fixed sizes that overlap: a copy of variable length costs more than the rest of the hash.
uint64_t StringTable::word_of(std::string_view text) {
  const char* data = text.data();
  if (text.size() >= 8) {
    uint64_t word;
    std::memcpy(&word, data, 8);
    return word;
  }
  if (text.size() >= 4) {
    uint32_t low, high;
    std::memcpy(&low, data, 4);
    std::memcpy(&high, data + text.size() - 4, 4);
    return low | uint64_t{high} << ((text.size() - 4) * 8);
  }
  uint64_t word = 0;
  for (size_t i = 0; i < text.size(); ++i) word |= uint64_t{static_cast<unsigned char>(data[i])} << (i * 8);
  return word;
}

uint64_t StringTable::hash_of(std::string_view text) {
  uint64_t hash = text.size();
  for (; text.size() > 8; text.remove_prefix(8)) {
    const uint64_t word = word_of(text);
    hash = mix(hash ^ word) + word;
  }
  return mix(mix(hash ^ word_of(text)));
}

void StringTable::reserve(size_t count, size_t bytes) {
  bytes_.reserve(bytes);
  begins_.reserve(count + 1);
  grow(std::bit_ceil(count * 2 + 16));
}

void StringTable::clear() {
  bytes_.clear();
  begins_.resize(1);
  std::fill(slots_.begin(), slots_.end(), Slot());
}

void StringTable::grow(size_t slots) {
  if (slots <= slots_.size()) return;
  slots_.assign(slots, Slot());
  for (uint32_t number = 0; number < size(); ++number) {
    const uint64_t hash = hash_of((*this)[number]);
    size_t slot = hash & (slots - 1);
    while (slots_[slot].number != 0) slot = (slot + 1) & (slots - 1);
    slots_[slot] = {number + 1, static_cast<uint32_t>(hash >> 32)};
  }
}

// The slot that holds `text`, or the free one where it would go.
size_t StringTable::slot_of(std::string_view text, uint64_t hash) const {
  const auto tag = static_cast<uint32_t>(hash >> 32);
  size_t slot = hash & (slots_.size() - 1);
  while (slots_[slot].number != 0 && (slots_[slot].tag != tag || (*this)[slots_[slot].number - 1] != text)) slot = (slot + 1) & (slots_.size() - 1);
  return slot;
}

uint32_t StringTable::find(std::string_view text) const {
  if (slots_.empty()) return kNoId;
  const uint32_t entry = slots_[slot_of(text, hash_of(text))].number;
  return entry != 0 ? entry - 1 : kNoId;
}

uint32_t StringTable::add(std::string_view text, uint64_t hash) {
  if ((begins_.size() + 1) * 2 > slots_.size()) grow(std::max<size_t>(64, slots_.size() * 2));
  const size_t slot = slot_of(text, hash);
  if (slots_[slot].number != 0) return slots_[slot].number - 1;
  bytes_.append(text);
  begins_.push_back(bytes_.size());
  slots_[slot] = {size(), static_cast<uint32_t>(hash >> 32)};
  return size() - 1;
}

}  // namespace cairn::dataset
