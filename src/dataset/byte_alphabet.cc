#include "dataset/byte_alphabet.h"

#include "dataset/unicode_classes.h"

namespace cairn::dataset {
namespace {

constexpr int kCharacters = 0x144;  // all are below

std::array<int16_t, kCharacters> make_bytes() {
  std::array<int16_t, kCharacters> bytes{};
  bytes.fill(-1);
  for (int byte = 0; byte < 256; ++byte) bytes[byte_characters()[static_cast<size_t>(byte)]] = static_cast<int16_t>(byte);
  return bytes;
}

}  // namespace

const std::array<char32_t, 256>& byte_characters() {
  static const std::array<char32_t, 256> characters = [] {
    std::array<char32_t, 256> made{};
    char32_t next = 256;
    for (char32_t byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
      made[byte] = printable ? byte : next++;
    }
    return made;
  }();
  return characters;
}

std::string spell_bytes(std::string_view bytes) {
  std::string spelled;
  spelled.reserve(bytes.size() * 2);
  for (char byte : bytes) append_utf8(spelled, byte_characters()[static_cast<unsigned char>(byte)]);
  return spelled;
}

std::optional<std::string> bytes_of_spelling(std::string_view token) {
  static const std::array<int16_t, kCharacters> bytes = make_bytes();
  std::string out;
  for (size_t at = 0; at < token.size();) {
    CodePoint point = code_point_at(token, at);
    if (point.value >= bytes.size() || bytes[point.value] < 0) return std::nullopt;
    out += static_cast<char>(bytes[point.value]);
    at += point.length;
  }
  return out;
}

}  // namespace cairn::dataset
