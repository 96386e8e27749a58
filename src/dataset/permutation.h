// A fixed order of the numbers 0 to size - 1 that needs no memory: the same for the same size and key on every machine, and any
// place of it is found at once. It decides the order in which training sees its data, so it never changes
// (docs/formats/pretraining-order.md has the definition and vectors).
//
// Immutable, thread-safe.
#pragma once

#include <array>
#include <cstdint>

namespace cairn::dataset {

class Permutation {
 public:
  // REQUIRES: 0 < size <= 2^62.
  Permutation(uint64_t size, uint64_t key);
  // REQUIRES: place < size.
  uint64_t at(uint64_t place) const;
  uint64_t size() const { return size_; }

  // The key of an epoch, from the seed in the config.
  static uint64_t key_of(uint64_t seed, uint64_t epoch);

 private:
  static constexpr int kRounds = 8;
  uint64_t size_;
  int half_bits_;
  uint64_t half_mask_;
  std::array<uint64_t, kRounds> round_keys_;
};

}  // namespace cairn::dataset
