// The limits table (docs/formats/limits.md): every size, count and depth that comes from stored or received data is checked
// against it before it is used.
#pragma once

#include <cstdint>

namespace cairn::limits {

inline constexpr uint64_t kKiB = 1024;
inline constexpr uint64_t kMiB = 1024 * kKiB;
inline constexpr uint64_t kGiB = 1024 * kMiB;
inline constexpr uint64_t kTiB = 1024 * kGiB;

inline constexpr uint64_t kPathBytesMax = 4096;
inline constexpr uint64_t kSegmentBytesMax = 255;
inline constexpr uint64_t kPathDepthMax = 1024;
inline constexpr uint64_t kSymlinkBytesMax = 4095;
inline constexpr uint64_t kChunkBytesMin = 256 * kKiB;
inline constexpr uint64_t kChunkBytesTarget = 1 * kMiB;
inline constexpr uint64_t kChunkBytesMax = 4 * kMiB;
inline constexpr uint64_t kNodeBytesMax = 256 * kKiB;
inline constexpr uint64_t kPackBytesTarget = 32 * kMiB;
inline constexpr uint64_t kPackBytesMax = 64 * kMiB;
inline constexpr uint64_t kFramesPerPackMax = 65'536;
inline constexpr uint64_t kInlineChunksMax = 64;
inline constexpr uint64_t kListDepthMax = 3;
inline constexpr uint64_t kTreeHeightMax = 16;
inline constexpr uint64_t kFileBytesMax = uint64_t{1} << 45;
inline constexpr uint64_t kEntriesMax = uint64_t{1} << 31;
inline constexpr uint64_t kChangesetBytesMax = uint64_t{1} << 31;
inline constexpr uint64_t kAttemptsMax = 1'000;
inline constexpr uint64_t kPinsPerVolumeMax = 100;
inline constexpr uint64_t kZstdWindowBytesMax = 8 * kMiB;
inline constexpr uint64_t kVolumeNameBytesMax = 40;

}  // namespace cairn::limits
