// Counts and sizes: int64 in the catalog and the domain, unsigned on the wire.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace cairn::server {

// A count of the domain is never negative.
inline uint64_t seen(int64_t number) { return number < 0 ? 0 : static_cast<uint64_t>(number); }
// Wire numbers are at most 2^63 - 1: the decoder saw to it.
inline int64_t counted(uint64_t number) { return static_cast<int64_t>(number); }

}  // namespace cairn::server
