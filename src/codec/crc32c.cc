#include "codec/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace cairn::codec {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // reversed

// kTables[k][b]: the effect of byte b followed by k zero bytes (slicing by eight).
constexpr std::array<std::array<uint32_t, 256>, 8> make_tables() {
  std::array<std::array<uint32_t, 256>, 8> tables{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ kPolynomial : crc >> 1;
    tables[0][i] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t i = 0; i < 256; ++i) tables[k][i] = tables[k - 1][i] >> 8 ^ tables[0][tables[k - 1][i] & 255];
  }
  return tables;
}
constexpr auto kTables = make_tables();

// Multiplication by x^n of a checksum is linear, so "followed by kLane zero bytes" is four look-ups.
constexpr size_t kLane = 1024;

constexpr uint32_t zeros_after(uint32_t crc, size_t count) {
  for (size_t i = 0; i < count; ++i) crc = crc >> 8 ^ kTables[0][crc & 255];
  return crc;
}

constexpr std::array<std::array<uint32_t, 256>, 4> make_shift_tables() {
  std::array<std::array<uint32_t, 256>, 4> tables{};
  std::array<uint32_t, 32> of_bit{};
  for (uint32_t bit = 0; bit < 32; ++bit) of_bit[bit] = zeros_after(uint32_t{1} << bit, kLane);
  for (uint32_t k = 0; k < 4; ++k) {
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = 0;
      for (uint32_t bit = 0; bit < 8; ++bit) {
        if (i >> bit & 1) value ^= of_bit[8 * k + bit];
      }
      tables[k][i] = value;
    }
  }
  return tables;
}

#if defined(__x86_64__)
uint32_t shift_lane(uint32_t crc) {
  static constexpr auto kShift = make_shift_tables();
  return kShift[0][crc & 255] ^ kShift[1][crc >> 8 & 255] ^ kShift[2][crc >> 16 & 255] ^ kShift[3][crc >> 24];
}

uint64_t load_u64(const uint8_t* at) {
  uint64_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
#endif

using Function = uint32_t (*)(ByteView, uint32_t);
Function chosen() {
  static const Function function = crc32c_has_hardware() ? crc32c_hardware : crc32c_table;
  return function;
}

}  // namespace

uint32_t crc32c(ByteView data, uint32_t seed) {
  return chosen()(data, seed);
}

uint32_t crc32c_table(ByteView data, uint32_t seed) {
  uint32_t crc = ~seed;
  const uint8_t* at = data.data();
  size_t left = data.size();
  for (; left >= 8; at += 8, left -= 8) {
    uint32_t low = crc ^ (at[0] | at[1] << 8 | at[2] << 16 | static_cast<uint32_t>(at[3]) << 24);
    crc = kTables[7][low & 255] ^ kTables[6][low >> 8 & 255] ^ kTables[5][low >> 16 & 255] ^ kTables[4][low >> 24] ^
          kTables[3][at[4]] ^ kTables[2][at[5]] ^ kTables[1][at[6]] ^ kTables[0][at[7]];
  }
  for (; left > 0; ++at, --left) crc = crc >> 8 ^ kTables[0][(crc ^ *at) & 255];
  return ~crc;
}

#if defined(__x86_64__)

bool crc32c_has_hardware() {
  return __builtin_cpu_supports("sse4.2");
}

// The instruction takes three cycles but one can start each cycle: three independent lanes keep it busy.
__attribute__((target("sse4.2"))) uint32_t crc32c_hardware(ByteView data, uint32_t seed) {
  uint64_t crc = static_cast<uint32_t>(~seed);
  const uint8_t* at = data.data();
  size_t left = data.size();
  for (; left >= 3 * kLane; at += 3 * kLane, left -= 3 * kLane) {
    uint64_t second = 0;
    uint64_t third = 0;
    for (size_t i = 0; i < kLane; i += 8) {
      crc = _mm_crc32_u64(crc, load_u64(at + i));
      second = _mm_crc32_u64(second, load_u64(at + kLane + i));
      third = _mm_crc32_u64(third, load_u64(at + 2 * kLane + i));
    }
    crc = shift_lane(static_cast<uint32_t>(crc)) ^ static_cast<uint32_t>(second);
    crc = shift_lane(static_cast<uint32_t>(crc)) ^ static_cast<uint32_t>(third);
  }
  for (; left >= 8; at += 8, left -= 8) crc = _mm_crc32_u64(crc, load_u64(at));
  uint32_t tail = static_cast<uint32_t>(crc);
  for (; left > 0; ++at, --left) tail = _mm_crc32_u8(tail, *at);
  return ~tail;
}

#else

bool crc32c_has_hardware() {
  return false;
}
uint32_t crc32c_hardware(ByteView data, uint32_t seed) {
  return crc32c_table(data, seed);
}

#endif

}  // namespace cairn::codec
