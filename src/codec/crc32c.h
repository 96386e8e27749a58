// CRC32C (Castagnoli), the checksum of every frame and signed body. Uses the processor's instruction where it has one and a
// table elsewhere; both give the same value (tested against RFC 3720's vectors).
//
// Thread-safe.
#pragma once

#include <cstdint>

#include "codec/bytes.h"

namespace cairn::codec {

// The checksum of what gave `seed` followed by `data`: crc32c(b, crc32c(a)) == crc32c(a + b).
uint32_t crc32c(ByteView data, uint32_t seed = 0);

// The two ways, for the test that compares them. crc32c_hardware REQUIRES: crc32c_has_hardware().
uint32_t crc32c_table(ByteView data, uint32_t seed);
uint32_t crc32c_hardware(ByteView data, uint32_t seed);
bool crc32c_has_hardware();

}  // namespace cairn::codec
