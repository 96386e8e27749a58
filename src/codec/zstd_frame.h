// One zstd frame per chunk. Decompression is bounded before a byte is decoded: the frame must state its content size, equal to
// what the caller expects and at most 4 MiB, a window of at most 8 MiB and no dictionary, and must fill the input exactly; the
// output goes into the caller's buffer only.
//
// Contexts are costly to make: keep one Compressor and one Decompressor a thread. Neither is thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "codec/bytes.h"

namespace cairn::codec {

class Compressor {
 public:
  Compressor();
  ~Compressor();
  Compressor(Compressor&&) noexcept;
  Compressor& operator=(Compressor&&) noexcept;

  // The most bytes a frame of `raw_size` bytes can take.
  static size_t bound(size_t raw_size);

  // Writes one frame and returns its size, or 0 when it does not fit `out` (give a buffer smaller than the input to ask "does
  // it pay?"). Levels 1 to 19. limit_exceeded above 4 MiB of input.
  Result<size_t> compress(ByteView raw, std::span<uint8_t> out, int level);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class Decompressor {
 public:
  Decompressor();
  ~Decompressor();
  Decompressor(Decompressor&&) noexcept;
  Decompressor& operator=(Decompressor&&) noexcept;

  // Fills `out`, whose size is the expected raw size, entirely; data_corrupt otherwise (`out` then holds rubbish).
  Status decompress(ByteView frame, std::span<uint8_t> out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cairn::codec
