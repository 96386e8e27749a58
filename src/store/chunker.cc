#include "store/chunker.h"

#include <algorithm>

namespace cairn::store {

namespace {

constexpr size_t kWindow = 64;        // a bit shifted in is gone after 64 bytes
constexpr size_t kLane = 16 * 1024;   // how far apart the two lanes run
// Harder to meet before the target (22 bits), easier after it (18).
constexpr uint64_t kMaskBeforeTarget = ~uint64_t{0} << 42;
constexpr uint64_t kMaskAfterTarget = ~uint64_t{0} << 46;

constexpr std::array<uint64_t, 256> make_gear() {
  std::array<uint64_t, 256> table{};
  uint64_t state = kGearSeed;
  for (uint64_t& value : table) {
    state += 0x9e3779b97f4a7c15;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    value = z ^ (z >> 31);
  }
  return table;
}

constexpr std::array<uint64_t, 256> kGear = make_gear();

// The hash of the kWindow bytes before `p`.
uint64_t warm(const uint8_t* p) {
  uint64_t hash = 0;
  for (const uint8_t* q = p - kWindow; q < p; ++q) hash = (hash << 1) + kGear[*q];
  return hash;
}

// The first cut in (begin, end] whose hash meets `mask`, or `end` + 1 for none. The hash at a position depends on the last 64
// bytes only, so two stretches are searched at once and the processor overlaps their chains.
size_t find_cut(const uint8_t* data, size_t begin, size_t end, uint64_t mask) {
  size_t at = begin;
  for (; at + 2 * kLane <= end; at += 2 * kLane) {
    uint64_t a = warm(data + at);
    uint64_t b = warm(data + at + kLane);
    const uint8_t* x = data + at;
    const uint8_t* y = data + at + kLane;
    size_t later = 0;
    for (size_t k = 0; k < kLane; ++k) {
      a = (a << 1) + kGear[x[k]];
      b = (b << 1) + kGear[y[k]];
      if (__builtin_expect((a & mask) == 0, 0)) return at + k + 1;
      if (__builtin_expect((b & mask) == 0, 0) && later == 0) later = k + 1;
    }
    if (later != 0) return at + kLane + later;
  }
  if (at == end) return end + 1;
  uint64_t hash = warm(data + at);
  for (; at < end; ++at) {
    hash = (hash << 1) + kGear[data[at]];
    if (__builtin_expect((hash & mask) == 0, 0)) return at + 1;
  }
  return end + 1;
}

}  // namespace

const std::array<uint64_t, 256>& gear_table() { return kGear; }

size_t Chunker::next_cut(codec::ByteView available, bool at_end) const {
  if (available.size() <= kMin) return at_end ? available.size() : 0;
  size_t end = std::min(available.size(), kMax);
  size_t middle = std::min(end, kTarget);
  size_t cut = find_cut(available.data(), kMin, middle, kMaskBeforeTarget);
  if (cut <= middle) return cut;
  if (middle < end) {
    cut = find_cut(available.data(), middle, end, kMaskAfterTarget);
    if (cut <= end) return cut;
  }
  return at_end || end == kMax ? end : 0;
}

}  // namespace cairn::store
