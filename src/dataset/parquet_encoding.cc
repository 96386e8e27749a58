#include "dataset/parquet_encoding.h"

namespace cairn::dataset {

bool HybridReader::start_run() {
  uint64_t header = 0;
  uint8_t part = 0x80;
  for (uint32_t shift = 0; part >= 0x80; shift += 7) {
    if (shift > 35 || position_ == view_.size()) return false;
    part = view_[position_++];
    header |= static_cast<uint64_t>(part & 0x7F) << shift;
  }
  packed_ = (header & 1) != 0;
  left_ = packed_ ? (header >> 1) * 8 : header >> 1;
  bit_count_ = 0;
  bits_ = 0;
  if (packed_) return true;
  repeated_ = 0;
  for (uint32_t byte = 0; byte < (width_ + 7) / 8; ++byte) {
    if (position_ == view_.size()) return false;
    repeated_ |= static_cast<uint32_t>(view_[position_++]) << (8 * byte);
  }
  return width_ == 32 || repeated_ >> width_ == 0;
}

bool HybridReader::unpack(uint32_t& value) {
  while (bit_count_ < width_) {
    if (position_ == view_.size()) return false;
    bits_ |= static_cast<uint64_t>(view_[position_++]) << bit_count_;
    bit_count_ += 8;
  }
  value = static_cast<uint32_t>(bits_ & ((uint64_t{1} << width_) - 1));
  bits_ >>= width_;
  bit_count_ -= width_;
  return true;
}

bool HybridReader::next(uint32_t& value) {
  while (left_ == 0) {
    if (!start_run()) return false;
  }
  --left_;
  value = repeated_;
  return !packed_ || unpack(value);
}

}  // namespace cairn::dataset
