#include "codec/bytes.h"

#include "base/check.h"

namespace cairn::codec {

void ByteWriter::little_endian(uint64_t value, size_t count) {
  uint8_t buffer[8];
  for (size_t i = 0; i < count; ++i) buffer[i] = static_cast<uint8_t>(value >> (8 * i));
  out_.insert(out_.end(), buffer, buffer + count);
}

void ByteWriter::varint(uint64_t value) {
  uint8_t buffer[kVarintBytesMax];
  size_t count = 0;
  while (value >= 0x80) {
    buffer[count++] = static_cast<uint8_t>(value | 0x80);
    value >>= 7;
  }
  buffer[count++] = static_cast<uint8_t>(value);
  out_.insert(out_.end(), buffer, buffer + count);
}

void ByteWriter::zigzag(int64_t value) {
  varint((static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63));
}

void ByteWriter::patch_u32(size_t offset, uint32_t value) {
  CAIRN_CHECK(out_.size() >= 4 && offset <= out_.size() - 4);
  for (size_t i = 0; i < 4; ++i) out_[offset + i] = static_cast<uint8_t>(value >> (8 * i));
}

uint64_t ByteReader::little_endian(size_t count) {
  ByteView view = bytes(count);
  uint64_t value = 0;
  for (size_t i = 0; i < view.size(); ++i) value |= static_cast<uint64_t>(view[i]) << (8 * i);
  return value;
}

uint64_t ByteReader::varint() {
  if (!ok_) return 0;
  uint64_t value = 0;
  for (size_t i = 0; i < kVarintBytesMax && position_ < view_.size(); ++i) {
    uint8_t byte = view_[position_++];
    bool overflow = i == kVarintBytesMax - 1 && byte > 1;
    bool needless = i > 0 && byte == 0;
    if (overflow || needless) break;
    value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) return value;
  }
  fail();
  return 0;
}

uint64_t ByteReader::varint(uint64_t max) {
  uint64_t value = varint();
  if (value <= max) return value;
  fail();
  return 0;
}

int64_t ByteReader::zigzag() {
  uint64_t value = varint();
  return static_cast<int64_t>((value >> 1) ^ (0 - (value & 1)));
}

ByteView ByteReader::bytes(size_t count) {
  if (!ok_ || count > view_.size() - position_) {
    fail();
    return {};
  }
  ByteView view = view_.subspan(position_, count);
  position_ += count;
  return view;
}

ByteView ByteReader::prefixed(size_t max) {
  return bytes(static_cast<size_t>(varint(max)));
}

bool ByteReader::expect(ByteView expected) {
  if (!equal(bytes(expected.size()), expected)) fail();
  return ok_;
}

bool ByteReader::expect_zeros(size_t count) {
  for (uint8_t byte : bytes(count)) {
    if (byte != 0) fail();
  }
  return ok_;
}

}  // namespace cairn::codec
