// Times of files as nanoseconds since 1970 in 64 bits: about 1678 to 2262. Earlier and later ones become the first and the last.
#pragma once

#include <cstdint>
#include <limits>

namespace cairn::os {

inline int64_t nanoseconds_of(int64_t seconds, int64_t nanoseconds) {
  constexpr int64_t kSecondsMax = std::numeric_limits<int64_t>::max() / 1'000'000'000;
  if (seconds >= kSecondsMax) return std::numeric_limits<int64_t>::max();
  if (seconds <= -kSecondsMax) return std::numeric_limits<int64_t>::min();
  return seconds * 1'000'000'000 + nanoseconds;
}

}  // namespace cairn::os
