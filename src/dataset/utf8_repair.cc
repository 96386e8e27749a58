#include "dataset/utf8_repair.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace cairn::dataset {
namespace {

struct Sequence {
  size_t length = 0;  // bytes of the sequence, or of its maximal ill-formed part
  bool good = false;
};

// The sequence that begins with a byte >= 0x80 (Unicode 15, table 3-7).
Sequence sequence_at(const unsigned char* bytes, size_t left) {
  const unsigned char lead = bytes[0];
  size_t length = 0;
  unsigned char low = 0x80, high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {1, false};
  }
  for (size_t i = 1; i < length; ++i) {
    if (i >= left || bytes[i] < low || bytes[i] > high) return {i, false};
    low = 0x80;
    high = 0xBF;
  }
  return {length, true};
}

size_t ascii_prefix(const unsigned char* bytes, size_t size) {
  size_t i = 0;
  for (; i + 8 <= size; i += 8) {
    uint64_t word;
    std::memcpy(&word, bytes + i, 8);
    if ((word & 0x8080808080808080u) != 0) break;
  }
  while (i < size && bytes[i] < 0x80) ++i;
  return i;
}

}  // namespace

size_t offset_before(const std::vector<TextPiece>& pieces, size_t offset) {
  auto after = std::upper_bound(pieces.begin(), pieces.end(), offset, [](size_t value, const TextPiece& piece) { return value < piece.out; });
  const TextPiece& piece = *std::prev(after);
  return piece.same ? piece.in + (offset - piece.out) : piece.in;
}

size_t well_formed_prefix(std::string_view text) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  size_t i = 0;
  while (i < text.size()) {
    i += ascii_prefix(bytes + i, text.size() - i);
    while (i < text.size() && bytes[i] >= 0x80) {
      Sequence sequence = sequence_at(bytes + i, text.size() - i);
      if (!sequence.good) return i;
      i += sequence.length;
    }
  }
  return i;
}

void repair_utf8(std::string_view text, std::string& out, std::vector<TextPiece>* pieces) {
  out.clear();
  if (pieces != nullptr) pieces->assign(1, TextPiece{});
  size_t i = 0;
  while (i < text.size()) {
    size_t good = well_formed_prefix(text.substr(i));
    out.append(text.substr(i, good));
    i += good;
    if (i == text.size()) break;
    Sequence bad = sequence_at(reinterpret_cast<const unsigned char*>(text.data()) + i, text.size() - i);
    if (pieces != nullptr) pieces->push_back({out.size(), i, false});
    out.append("\xEF\xBF\xBD");
    i += bad.length;
    if (pieces != nullptr) pieces->push_back({out.size(), i, true});
  }
}

}  // namespace cairn::dataset
