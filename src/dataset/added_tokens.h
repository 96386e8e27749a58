// Added tokens (of tokenizer.json) in a text: leftmost, longest, with the flags single_word, lstrip and rstrip, as Hugging Face's
// AddedVocabulary finds them.
//
// Immutable after construction; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::dataset {

struct AddedToken {
  uint32_t id = 0;
  std::string content;
  bool single_word = false, lstrip = false, rstrip = false, normalized = false, special = false;
};

inline constexpr size_t kAddedTokensMax = 1u << 20;
inline constexpr size_t kAddedTokenBytesMax = 1024;

class AddedTokenMatcher {
 public:
  // Part of a text: an added token, or the text between two.
  struct Part {
    size_t begin = 0, end = 0;
    const AddedToken* token = nullptr;
  };

  AddedTokenMatcher() = default;
  // Matches `contents[i]` for `tokens[i]`; the tokens must outlive this. Of equal contents the first counts.
  AddedTokenMatcher(std::vector<std::string> contents, std::vector<const AddedToken*> tokens);

  // Appends the parts of `text` in order; parts of text are never empty. REQUIRES: `text` is well-formed.
  void find(std::string_view text, std::vector<Part>& parts) const;
  bool empty() const { return entries_.empty(); }

 private:
  struct Entry {
    std::string content;
    const AddedToken* token;
  };
  const Entry* longest_at(std::string_view text) const;

  std::vector<Entry> entries_;           // sorted by content
  std::array<uint32_t, 257> begins_{};   // of the entries with each first byte
  int only_first_ = -1;                  // the first byte, when all have the same
};

}  // namespace cairn::dataset
