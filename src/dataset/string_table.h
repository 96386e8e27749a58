// Strings numbered from 0, in one block of memory, with a hash table from string to number.
//
// A value type; reading is safe from many threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::dataset {

inline constexpr uint32_t kNoId = UINT32_MAX;

class StringTable {
 public:
  static uint64_t hash_of(std::string_view text);
  // The bytes of `text` (at most 8) as a little-endian number.
  static uint64_t word_of(std::string_view text);

  void reserve(size_t count, size_t bytes);
  // The number of `text`; the next free one when it is new. `hash` is hash_of(text). REQUIRES: fewer than 2^32 - 1 strings.
  uint32_t add(std::string_view text) { return add(text, hash_of(text)); }
  uint32_t add(std::string_view text, uint64_t hash);
  uint32_t find(std::string_view text) const;  // kNoId: not there
  std::string_view operator[](uint32_t number) const { return std::string_view(bytes_).substr(begins_[number], begins_[number + 1] - begins_[number]); }
  uint32_t size() const { return static_cast<uint32_t>(begins_.size() - 1); }
  size_t bytes() const { return bytes_.size(); }  // of the strings themselves
  void clear();  // keeps its memory

 private:
  struct Slot {
    uint32_t number = 0;  // + 1; 0: free
    uint32_t tag = 0;     // upper half of the hash
  };
  size_t slot_of(std::string_view text, uint64_t hash) const;
  void grow(size_t slots);

  std::string bytes_;
  std::vector<size_t> begins_{0};
  std::vector<Slot> slots_;
};

}  // namespace cairn::dataset
