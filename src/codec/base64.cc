#include "codec/base64.h"

#include <array>

namespace cairn::codec {
namespace {

constexpr char kStandard[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr char kUrl[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

constexpr std::array<int8_t, 256> reverse(const char* alphabet) {
  std::array<int8_t, 256> table{};
  for (int8_t& value : table) value = -1;
  for (int i = 0; i < 64; ++i) table[static_cast<uint8_t>(alphabet[i])] = static_cast<int8_t>(i);
  return table;
}
constexpr auto kStandardValues = reverse(kStandard);
constexpr auto kUrlValues = reverse(kUrl);

std::string encode(ByteView data, const char* alphabet, bool pad) {
  std::string text;
  text.reserve((data.size() + 2) / 3 * 4);
  for (size_t i = 0; i < data.size(); i += 3) {
    size_t count = std::min<size_t>(3, data.size() - i);
    uint32_t group = static_cast<uint32_t>(data[i]) << 16;
    if (count > 1) group |= static_cast<uint32_t>(data[i + 1]) << 8;
    if (count > 2) group |= data[i + 2];
    for (size_t digit = 0; digit <= count; ++digit) text.push_back(alphabet[group >> (18 - 6 * digit) & 63]);
    if (pad) text.append(3 - count, '=');
  }
  return text;
}

std::optional<Bytes> decode(std::string_view digits, const std::array<int8_t, 256>& values) {
  if (digits.size() % 4 == 1) return std::nullopt;
  Bytes out;
  out.reserve(digits.size() * 3 / 4);
  uint32_t bits = 0;
  int held = 0;
  for (char c : digits) {
    int value = values[static_cast<uint8_t>(c)];
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(value);
    held += 6;
    if (held < 8) continue;
    held -= 8;
    out.push_back(static_cast<uint8_t>(bits >> held));
    bits &= (1u << held) - 1;
  }
  if (bits != 0) return std::nullopt;
  return out;
}

}  // namespace

std::string base64_encode(ByteView data) {
  return encode(data, kStandard, true);
}
std::string base64url_encode(ByteView data) {
  return encode(data, kUrl, false);
}

std::optional<Bytes> base64_decode(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  return decode(text.substr(0, text.size() - padding), kStandardValues);
}

std::optional<Bytes> base64url_decode(std::string_view text) {
  return decode(text, kUrlValues);
}

}  // namespace cairn::codec
