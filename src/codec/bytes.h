// Bytes and the two ends of every stored or sent format. A ByteWriter appends to a buffer; a ByteReader walks over a view and
// can neither leave it nor be left half-checked: the first read that does not fit, or a value that breaks its bound, fails
// the reader for good, and every later read returns zero or an empty view. A decoder reads a group of fields and asks ok()
// once, but before it loops over a count or allocates for one.
//
// Numbers are little-endian. Varints are LEB128 of at most 10 bytes and canonical (no needless last zero byte): a value has one
// encoding, so that equal contents have equal bytes. Not thread-safe; a reader does not own what it reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace cairn::codec {

using Bytes = std::vector<uint8_t>;
using ByteView = std::span<const uint8_t>;

inline ByteView as_bytes(std::string_view text) { return {reinterpret_cast<const uint8_t*>(text.data()), text.size()}; }
inline std::string_view as_text(ByteView bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
inline bool equal(ByteView a, ByteView b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

inline constexpr size_t kVarintBytesMax = 10;

class ByteWriter {
 public:
  // Appends to `out`, which must outlive the writer.
  explicit ByteWriter(Bytes& out) : out_(out) {}

  void u8(uint8_t value) { out_.push_back(value); }
  void u16(uint16_t value) { little_endian(value, 2); }
  void u32(uint32_t value) { little_endian(value, 4); }
  void u64(uint64_t value) { little_endian(value, 8); }
  void varint(uint64_t value);
  // A signed number as a varint: 0, -1, 1, -2 … become 0, 1, 2, 3 …
  void zigzag(int64_t value);
  void bytes(ByteView view) { out_.insert(out_.end(), view.begin(), view.end()); }
  void bytes(std::string_view text) { bytes(as_bytes(text)); }
  // varint(size), then the bytes.
  void prefixed(ByteView view) { varint(view.size()); bytes(view); }
  void prefixed(std::string_view text) { prefixed(as_bytes(text)); }
  void zeros(size_t count) { out_.insert(out_.end(), count, uint8_t{0}); }

  // Bytes in the buffer, those before this writer included.
  size_t size() const { return out_.size(); }
  // Overwrites four bytes at `offset`. REQUIRES: offset + 4 <= size().
  void patch_u32(size_t offset, uint32_t value);

 private:
  void little_endian(uint64_t value, size_t count);
  Bytes& out_;
};

class ByteReader {
 public:
  explicit ByteReader(ByteView view) : view_(view) {}

  uint8_t u8() { return static_cast<uint8_t>(little_endian(1)); }
  uint16_t u16() { return static_cast<uint16_t>(little_endian(2)); }
  uint32_t u32() { return static_cast<uint32_t>(little_endian(4)); }
  uint64_t u64() { return little_endian(8); }
  uint64_t varint();
  // Fails (and returns 0) when the value is above `max`: for counts, sizes and indexes.
  uint64_t varint(uint64_t max);
  int64_t zigzag();
  // A view into the input, of exactly `count` bytes.
  ByteView bytes(size_t count);
  // What prefixed() wrote, refused when longer than `max`.
  ByteView prefixed(size_t max);
  // True, and the bytes are consumed, when `expected` comes next; fails the reader otherwise.
  bool expect(ByteView expected);
  bool expect(std::string_view expected) { return expect(as_bytes(expected)); }
  // `count` bytes, all zero.
  bool expect_zeros(size_t count);
  void skip(size_t count) { bytes(count); }

  void fail() { ok_ = false; }
  bool ok() const { return ok_; }
  explicit operator bool() const { return ok_; }
  size_t remaining() const { return ok_ ? view_.size() - position_ : 0; }
  size_t position() const { return position_; }
  bool at_end() const { return position_ == view_.size(); }
  // All was read and nothing failed: what a decoder asks last.
  bool finished() const { return ok_ && at_end(); }

 private:
  uint64_t little_endian(size_t count);
  ByteView view_;
  size_t position_ = 0;
  bool ok_ = true;
};

}  // namespace cairn::codec
