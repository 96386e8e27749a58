// Constants of docs/formats/changeset.md, shared by writer and reader. Internal to store.
#pragma once

#include <cstdint>
#include <string_view>

#include "store/changeset.h"

namespace cairn::store {

inline constexpr std::string_view kChangesetMagic = "CTC1";
inline constexpr uint8_t kChangesetVersion = 1;
inline constexpr size_t kChangesetHeaderBytes = 6;
inline constexpr size_t kBlockHeaderBytes = 12;
// The writer closes a block from here on; the longest record (a full segment of chunks) still fits.
inline constexpr size_t kBlockBytesTarget = 512 * limits::kKiB;
inline constexpr size_t kBlockBytesWorthCompressing = 4 * limits::kKiB;
static_assert(kBlockBytesTarget + kChunksPerSegmentMax * (47 + 16) + 64 < kChangesetBlockBytesMax);

enum class RecordType : uint8_t { kPut = 1, kChunks = 2, kDelete = 3, kDeletePrefix = 4, kEnd = 5 };

}  // namespace cairn::store
