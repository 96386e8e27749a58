// One stored chunk, node or list (docs/formats/frame.md): a 16-byte header and the bytes, raw or as one zstd frame. The
// header's CRC32C covers its first 12 bytes and the stored bytes.
//
// Decoding is bounded: lengths are checked against what the caller expects and against 4 MiB before anything is allocated.
// Pure functions; a FrameDecoder keeps a zstd context and is used by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "codec/bytes.h"
#include "codec/digest.h"
#include "store/types.h"

namespace cairn::codec {
class Decompressor;
}

namespace cairn::store {

inline constexpr size_t kFrameHeaderBytes = 16;
inline constexpr uint8_t kFrameMagic = 0xCF;
enum class FrameCodec : uint8_t { kRaw = 0, kZstd = 1 };

struct FrameHeader {
  FrameCodec codec = FrameCodec::kRaw;
  uint32_t raw_len = 0;
  uint32_t stored_len = 0;
  uint32_t crc32c = 0;
};

// Writes the header of `stored` to `out` and returns the CRC it holds. REQUIRES: out.size() >= kFrameHeaderBytes.
uint32_t write_frame_header(FrameCodec codec, uint32_t raw_len, ByteView stored, std::span<uint8_t> out);
// Checks magic, codec and lengths; kDataCorrupt otherwise. The CRC is not checked: it needs the stored bytes.
Result<FrameHeader> parse_frame_header(ByteView bytes);

class FrameDecoder {
 public:
  FrameDecoder();
  ~FrameDecoder();
  FrameDecoder(FrameDecoder&&) noexcept;
  FrameDecoder& operator=(FrameDecoder&&) noexcept;

  // Decodes a whole frame (header and stored bytes, nothing else) into `out`, which must have exactly the raw length.
  // Checks header, CRC and lengths, and, when `hash` is given, that the raw bytes have it. kChunkCorrupt otherwise.
  Status decode_into(ByteView frame, std::span<uint8_t> out, const Digest* hash);
  // The same into new memory; `expected` says what the frame must hold.
  Result<Bytes> decode(ByteView frame, const ChunkRef& expected);
  Result<Bytes> decode(ByteView frame, const FrameRef& expected);

 private:
  std::unique_ptr<codec::Decompressor> decompressor_;
};

}  // namespace cairn::store
