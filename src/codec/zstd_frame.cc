#include "codec/zstd_frame.h"

#include <zstd.h>
#include <zstd_errors.h>

#include "base/check.h"
#include "base/limits.h"

namespace cairn::codec {
namespace {

Error corrupt(const std::string& why) {
  return Error(Code::kDataCorrupt, "zstd frame: " + why);
}

// Reads what RFC 8878 §3.1.1.1 puts before the blocks, since the library's stable interface tells neither window nor
// dictionary.
Status check_header(ByteView frame, size_t expected_size) {
  ByteReader reader(frame);
  if (reader.u32() != ZSTD_MAGICNUMBER) return corrupt("no frame magic");
  uint8_t descriptor = reader.u8();
  bool single_segment = descriptor & 0x20;
  if (descriptor & 0x08) return corrupt("reserved bit set");
  if (descriptor & 0x03) return corrupt("names a dictionary");
  uint64_t window = 0;
  if (!single_segment) {
    uint8_t window_byte = reader.u8();
    uint64_t base = uint64_t{1} << (10 + (window_byte >> 3));
    window = base + base / 8 * (window_byte & 7);
  }
  int size_flag = descriptor >> 6;
  uint64_t content_size = 0;
  switch (size_flag) {
    case 0:
      if (!single_segment) return corrupt("states no content size");
      content_size = reader.u8();
      break;
    case 1: content_size = uint64_t{reader.u16()} + 256; break;
    case 2: content_size = reader.u32(); break;
    case 3: content_size = reader.u64(); break;
  }
  if (!reader.ok()) return corrupt("header cut short");
  if (single_segment) window = content_size;
  if (content_size != expected_size) {
    return corrupt("states " + std::to_string(content_size) + " bytes where " + std::to_string(expected_size) +
                   " are expected");
  }
  if (window > limits::kZstdWindowBytesMax) return corrupt("window of " + std::to_string(window) + " bytes");
  return ok();
}

}  // namespace

struct Compressor::State {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  State() { CAIRN_CHECK(context != nullptr); }
  ~State() { ZSTD_freeCCtx(context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

Compressor::Compressor() : state_(std::make_unique<State>()) {}
Compressor::~Compressor() = default;
Compressor::Compressor(Compressor&&) noexcept = default;
Compressor& Compressor::operator=(Compressor&&) noexcept = default;

size_t Compressor::bound(size_t raw_size) {
  return ZSTD_compressBound(raw_size);
}

Result<size_t> Compressor::compress(ByteView raw, std::span<uint8_t> out, int level) {
  CAIRN_CHECK(level >= 1 && level <= 19);
  if (raw.size() > limits::kChunkBytesMax) {
    return Error(Code::kLimitExceeded, "a frame of " + std::to_string(raw.size()) + " bytes; at most " +
                                           std::to_string(limits::kChunkBytesMax));
  }
  // One call with the size known: the frame states its content size and needs no window beyond it.
  size_t size = ZSTD_compressCCtx(state_->context, out.data(), out.size(), raw.data(), raw.size(), level);
  if (!ZSTD_isError(size)) return size;
  if (ZSTD_getErrorCode(size) == ZSTD_error_dstSize_tooSmall) return size_t{0};
  return Error(Code::kInternal, std::string("zstd compress: ") + ZSTD_getErrorName(size));
}

struct Decompressor::State {
  ZSTD_DCtx* context = ZSTD_createDCtx();
  State() { CAIRN_CHECK(context != nullptr); }
  ~State() { ZSTD_freeDCtx(context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

Decompressor::Decompressor() : state_(std::make_unique<State>()) {}
Decompressor::~Decompressor() = default;
Decompressor::Decompressor(Decompressor&&) noexcept = default;
Decompressor& Decompressor::operator=(Decompressor&&) noexcept = default;

Status Decompressor::decompress(ByteView frame, std::span<uint8_t> out) {
  if (out.size() > limits::kChunkBytesMax) {
    return Error(Code::kLimitExceeded, "a frame of " + std::to_string(out.size()) + " bytes; at most " +
                                           std::to_string(limits::kChunkBytesMax));
  }
  CAIRN_CHECK_OK(check_header(frame, out.size()));
  size_t frame_size = ZSTD_findFrameCompressedSize(frame.data(), frame.size());
  if (ZSTD_isError(frame_size)) return corrupt(ZSTD_getErrorName(frame_size));
  if (frame_size != frame.size()) return corrupt(std::to_string(frame.size() - frame_size) + " bytes after its end");
  size_t size = ZSTD_decompressDCtx(state_->context, out.data(), out.size(), frame.data(), frame.size());
  if (ZSTD_isError(size)) return corrupt(ZSTD_getErrorName(size));
  if (size != out.size()) return corrupt("gives " + std::to_string(size) + " bytes, not " + std::to_string(out.size()));
  return ok();
}

}  // namespace cairn::codec
