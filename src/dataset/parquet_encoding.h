// Parquet's encodings of the numbers inside a page: runs of levels and dictionary indexes. Inputs are views of a page that stays.
#pragma once

#include <cstdint>

#include "codec/bytes.h"

namespace cairn::dataset {

// The RLE / bit-packed hybrid of numbers of `width` bits.
class HybridReader {
 public:
  HybridReader() = default;
  // REQUIRES: width <= 32.
  HybridReader(codec::ByteView view, uint32_t width) : view_(view), width_(width) {}
  // False when the input ends too early or is nonsense.
  bool next(uint32_t& value);

 private:
  bool start_run();
  bool unpack(uint32_t& value);

  codec::ByteView view_;
  uint32_t width_ = 0;
  size_t position_ = 0;
  uint64_t left_ = 0;      // of the run
  bool packed_ = false;
  uint32_t repeated_ = 0;
  uint64_t bits_ = 0;      // unpacked ahead
  uint32_t bit_count_ = 0;
};

}  // namespace cairn::dataset
