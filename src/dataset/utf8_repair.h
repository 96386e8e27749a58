// UTF-8 as Python's errors="replace" reads it: each maximal ill-formed part becomes one U+FFFD, so that a tokenizer sees valid text.
//
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::dataset {

// Some editors begin a file with it; it is no part of the text.
inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

// A stretch of changed text and where it came from: bytes from `out` on stand for `in`, `in` + 1, … when `same`, else all for `in`.
// A list of them is sorted by `out` and begins at 0.
struct TextPiece {
  size_t out = 0;
  size_t in = 0;
  bool same = true;
};

// The offset in the old text of the byte at `offset` in the new one. REQUIRES: `pieces` is not empty.
size_t offset_before(const std::vector<TextPiece>& pieces, size_t offset);

// Length of the longest prefix that is well-formed UTF-8.
size_t well_formed_prefix(std::string_view text);

// Writes well-formed text to `out`; `pieces` (if any) tells where its bytes came from.
void repair_utf8(std::string_view text, std::string& out, std::vector<TextPiece>* pieces);

}  // namespace cairn::dataset
