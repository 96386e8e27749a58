// Cuts a file into content-defined chunks (docs/formats/chunk.md): gear hash with normalisation, 256 KiB / 1 MiB / 4 MiB.
// The cuts depend on the bytes alone and are the same on every machine. A file of at most 256 KiB is one chunk, an empty
// file has none.
//
// The caller holds the file's bytes in a contiguous buffer and asks for the next cut:
//
//   Chunker chunker;
//   while (!available.empty()) {
//     size_t n = chunker.next_cut(available, at_end);
//     if (n == 0) { read more behind `available`; continue; }     // never when at_end, or with 4 MiB available
//     use(available.first(n)); available = available.subspan(n);
//   }
//
// A Chunker is stateless between chunks and thread-compatible; the search is restarted when it returned 0, so offer 4 MiB
// where the file has them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/limits.h"
#include "codec/bytes.h"

namespace cairn::store {

// The 256 numbers of the gear hash: splitmix64 from kGearSeed.
inline constexpr uint64_t kGearSeed = 0x9e3779b97f4a7c15;
const std::array<uint64_t, 256>& gear_table();

inline constexpr uint32_t kChunkerGear1 = 1;  // the chunker's id in the store header

class Chunker {
 public:
  static constexpr size_t kMin = limits::kChunkBytesMin;
  static constexpr size_t kTarget = limits::kChunkBytesTarget;
  static constexpr size_t kMax = limits::kChunkBytesMax;

  // The length of the chunk at the start of `available`, or 0 when more bytes are needed to know. With `at_end` the file
  // ends with `available`; then 0 only if `available` is empty.
  size_t next_cut(codec::ByteView available, bool at_end) const;
};

}  // namespace cairn::store
