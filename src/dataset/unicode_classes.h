// Code points as the patterns of tokenizers see them: \p{L}, \p{N}, \s and line ends, as of Unicode 16 (what Hugging Face's
// tokenizers use for patterns), and NFC as of Unicode 9 (what they use to normalize).
//
// Any thread; the tables are made at the first call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dataset/utf8_repair.h"

namespace cairn::dataset {

enum class CharClass : uint8_t { kOther, kLetter, kNumber, kSpace, kNewline };  // kNewline: \r and \n; kSpace: the rest of \s

// One entry for each code point, 0x110000 of them.
const CharClass* char_classes();
// Of both kinds, what came after Unicode 14.
struct CodePointRange {
  char32_t first = 0, last = 0;
};
std::span<const CodePointRange> new_letters();
std::span<const CodePointRange> new_numbers();
bool is_white_space(char32_t code_point);
bool is_word_char(char32_t code_point);  // \w of Rust's regular expressions

// The code point that begins at `at`, and its length. REQUIRES: `text` is well-formed and `at` is a boundary inside it.
struct CodePoint {
  char32_t value = 0;
  size_t length = 0;
};
inline CodePoint code_point_at(std::string_view text, size_t at) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data()) + at;
  const char32_t lead = bytes[0];
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 0x1F) << 6 | (bytes[1] & 0x3Fu), 2};
  if (lead < 0xF0) return {(lead & 0x0F) << 12 | (bytes[1] & 0x3Fu) << 6 | (bytes[2] & 0x3Fu), 3};
  return {(lead & 0x07) << 18 | (bytes[1] & 0x3Fu) << 12 | (bytes[2] & 0x3Fu) << 6 | (bytes[3] & 0x3Fu), 4};
}
// The code point that ends before `end`. REQUIRES: end > 0.
CodePoint code_point_before(std::string_view text, size_t end);
void append_utf8(std::string& out, char32_t code_point);

// Whether `text` (well-formed) is surely NFC; false may be wrong.
bool is_nfc(std::string_view text);
// NFC of well-formed text; `pieces` (if any) tells where the bytes came from.
Status to_nfc(std::string_view text, std::string& out, std::vector<TextPiece>* pieces);

}  // namespace cairn::dataset
