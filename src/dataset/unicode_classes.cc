#include "dataset/unicode_classes.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <unicode/bytestream.h>
#include <unicode/edits.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/uniset.h>

namespace cairn::dataset {
namespace {

// Letters and numbers that came after Unicode 14, which PCRE2 10.42 knows (ICU 72: 15), until Unicode 16.
constexpr CodePointRange kNewLetters[] = {
    {0x1C89, 0x1C8A}, {0xA7CB, 0xA7CD}, {0xA7DA, 0xA7DC}, {0x105C0, 0x105F3}, {0x10D4A, 0x10D65}, {0x10D6F, 0x10D85}, {0x10EC2, 0x10EC4},
    {0x1123F, 0x11240}, {0x11380, 0x11389}, {0x1138B, 0x1138B}, {0x1138E, 0x1138E}, {0x11390, 0x113B5}, {0x113B7, 0x113B7}, {0x113D1, 0x113D1},
    {0x113D3, 0x113D3}, {0x11BC0, 0x11BE0}, {0x11F02, 0x11F02}, {0x11F04, 0x11F10}, {0x11F12, 0x11F33}, {0x1342F, 0x1342F}, {0x13441, 0x13446},
    {0x13460, 0x143FA}, {0x16100, 0x1611D}, {0x16D40, 0x16D6C}, {0x18CFF, 0x18CFF}, {0x1B132, 0x1B132}, {0x1B155, 0x1B155}, {0x1DF25, 0x1DF2A},
    {0x1E030, 0x1E06D}, {0x1E4D0, 0x1E4EB}, {0x1E5D0, 0x1E5ED}, {0x1E5F0, 0x1E5F0}, {0x2B739, 0x2B739}, {0x2EBF0, 0x2EE5D}, {0x31350, 0x323AF},
};
constexpr CodePointRange kNewNumbers[] = {
    {0x10D40, 0x10D49}, {0x116D0, 0x116E3}, {0x11BF0, 0x11BF9}, {0x11F50, 0x11F59}, {0x16130, 0x16139}, {0x16D70, 0x16D79}, {0x1CCF0, 0x1CCF9},
    {0x1D2C0, 0x1D2D3}, {0x1E4F0, 0x1E4F9}, {0x1E5F1, 0x1E5FA},
};

CharClass class_of(char32_t c) {
  if (c == '\r' || c == '\n') return CharClass::kNewline;
  if (is_white_space(c)) return CharClass::kSpace;
  const uint32_t mask = U_GET_GC_MASK(static_cast<UChar32>(c));
  if ((mask & U_GC_L_MASK) != 0) return CharClass::kLetter;
  if ((mask & U_GC_N_MASK) != 0) return CharClass::kNumber;
  return CharClass::kOther;
}

struct Normalizers {
  const icu::Normalizer2* nfc = nullptr;
  icu::UnicodeSet known;
  std::unique_ptr<icu::FilteredNormalizer2> unicode9;
};

// ICU 72 reorders and composes marks that came after Unicode 9; Hugging Face's normalizer leaves them alone.
const Normalizers* normalizers() {
  static const std::unique_ptr<Normalizers> made = [] {
    auto all = std::make_unique<Normalizers>();
    UErrorCode code = U_ZERO_ERROR;
    all->nfc = icu::Normalizer2::getNFCInstance(code);
    all->known = icu::UnicodeSet(icu::UnicodeString::fromUTF8("[:age=9.0:]"), code);
    if (U_FAILURE(code)) return std::unique_ptr<Normalizers>();
    all->known.freeze();
    all->unicode9 = std::make_unique<icu::FilteredNormalizer2>(*all->nfc, all->known);
    return all;
  }();
  return made.get();
}

icu::StringPiece piece_of(std::string_view text) { return {text.data(), static_cast<int32_t>(text.size())}; }

}  // namespace

const CharClass* char_classes() {
  static const std::unique_ptr<CharClass[]> table = [] {
    auto classes = std::make_unique<CharClass[]>(0x110000);
    for (char32_t c = 0; c < 0x110000; ++c) classes[c] = class_of(c);
    for (const CodePointRange& range : kNewLetters) std::fill(&classes[range.first], &classes[range.last] + 1, CharClass::kLetter);
    for (const CodePointRange& range : kNewNumbers) std::fill(&classes[range.first], &classes[range.last] + 1, CharClass::kNumber);
    return classes;
  }();
  return table.get();
}

std::span<const CodePointRange> new_letters() { return kNewLetters; }
std::span<const CodePointRange> new_numbers() { return kNewNumbers; }

bool is_white_space(char32_t code_point) { return u_isUWhiteSpace(static_cast<UChar32>(code_point)) != 0; }

bool is_word_char(char32_t code_point) {
  const auto c = static_cast<UChar32>(code_point);
  return u_isUAlphabetic(c) != 0 || (U_GET_GC_MASK(c) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0 || c == 0x200C || c == 0x200D;
}

CodePoint code_point_before(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return code_point_at(text, at);
}

void append_utf8(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
    return;
  }
  if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
  } else {
    if (c < 0x10000) {
      out += static_cast<char>(0xE0 | c >> 12);
    } else {
      out += static_cast<char>(0xF0 | c >> 18);
      out += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    }
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
  }
  out += static_cast<char>(0x80 | (c & 0x3F));
}

bool is_nfc(std::string_view text) {
  // Nothing below U+0300 (CC 80) composes or moves by itself.
  if (std::none_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) >= 0xCC; })) return true;
  const Normalizers* all = normalizers();
  UErrorCode code = U_ZERO_ERROR;
  return all != nullptr && all->nfc->isNormalizedUTF8(piece_of(text), code) != 0 && U_SUCCESS(code);
}

Status to_nfc(std::string_view text, std::string& out, std::vector<TextPiece>* pieces) {
  const Normalizers* all = normalizers();
  if (all == nullptr) return Error(Code::kInternal, "ICU has no NFC data");
  out.clear();
  icu::StringByteSink<std::string> sink(&out);
  icu::Edits edits;
  UErrorCode code = U_ZERO_ERROR;
  all->unicode9->normalizeUTF8(0, piece_of(text), sink, pieces != nullptr ? &edits : nullptr, code);
  if (U_FAILURE(code)) return Error(Code::kLimitExceeded, fmt::format("a text of {} bytes cannot be normalized: {}", text.size(), u_errorName(code)));
  if (pieces != nullptr) {
    pieces->clear();
    icu::Edits::Iterator it = edits.getFineIterator();
    while (it.next(code) != 0 && U_SUCCESS(code)) {
      pieces->push_back({static_cast<size_t>(it.destinationIndex()), static_cast<size_t>(it.sourceIndex()), it.hasChange() == 0});
    }
    if (pieces->empty()) pieces->push_back({});
  }
  return ok();
}

}  // namespace cairn::dataset
