#include "dataset/permutation.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace cairn::dataset {
namespace {

constexpr uint64_t kGolden = 0x9E3779B97F4A7C15;
// Below 256 places the network itself would not reach many orders; walking the cycles of a larger one does.
constexpr int kHalfBitsMin = 4;

// The output function of splitmix64.
uint64_t mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
  return value ^ (value >> 31);
}

}  // namespace

uint64_t Permutation::key_of(uint64_t seed, uint64_t epoch) { return mix(mix(seed + kGolden) + (epoch + 1) * kGolden); }

Permutation::Permutation(uint64_t size, uint64_t key) : size_(size) {
  CAIRN_CHECK(size > 0 && size <= uint64_t{1} << 62);
  half_bits_ = std::max(kHalfBitsMin, static_cast<int>(std::bit_width(size - 1) + 1) / 2);
  half_mask_ = (uint64_t{1} << half_bits_) - 1;
  for (uint64_t& round_key : round_keys_) round_key = mix(key += kGolden);
}

uint64_t Permutation::at(uint64_t place) const {
  CAIRN_CHECK(place < size_);
  do {
    uint64_t left = place >> half_bits_;
    uint64_t right = place & half_mask_;
    for (uint64_t round_key : round_keys_) {
      uint64_t next = left ^ (mix(right ^ round_key) & half_mask_);
      left = right;
      right = next;
    }
    place = left << half_bits_ | right;
  } while (place >= size_);
  return place;
}

}  // namespace cairn::dataset
