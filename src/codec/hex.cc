#include "codec/hex.h"

namespace cairn::codec {
namespace {

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

template <class Out>
std::optional<Out> decode(std::string_view hex) {
  if (hex.size() % 2 != 0) return std::nullopt;
  Out out(hex.size() / 2, typename Out::value_type{});
  for (size_t i = 0; i < out.size(); ++i) {
    int high = digit_of(hex[2 * i]);
    int low = digit_of(hex[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    out[i] = static_cast<typename Out::value_type>(high << 4 | low);
  }
  return out;
}

}  // namespace

std::string hex_encode(ByteView data) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text(2 * data.size(), '\0');
  for (size_t i = 0; i < data.size(); ++i) {
    text[2 * i] = kDigits[data[i] >> 4];
    text[2 * i + 1] = kDigits[data[i] & 15];
  }
  return text;
}

std::optional<Bytes> hex_decode(std::string_view hex) {
  return decode<Bytes>(hex);
}
std::optional<std::string> hex_decode_text(std::string_view hex) {
  return decode<std::string>(hex);
}

std::string random_secret(Random& random) {
  uint8_t bytes[kSecretDigits / 2];
  random.fill(bytes);
  return hex_encode(ByteView(bytes));
}

std::string hex_u32(uint32_t value) {
  uint8_t bytes[4];
  for (int i = 0; i < 4; ++i) bytes[i] = static_cast<uint8_t>(value >> (24 - 8 * i));
  return hex_encode(ByteView(bytes));
}

std::optional<uint32_t> hex_decode_u32(std::string_view hex) {
  if (hex.size() != 8) return std::nullopt;
  uint32_t value = 0;
  for (char c : hex) {
    int digit = digit_of(c);
    if (digit < 0) return std::nullopt;
    value = value << 4 | static_cast<uint32_t>(digit);
  }
  return value;
}

}  // namespace cairn::codec
