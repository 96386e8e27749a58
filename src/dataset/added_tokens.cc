#include "dataset/added_tokens.h"

#include <algorithm>
#include <cstring>

#include "dataset/unicode_classes.h"

namespace cairn::dataset {
namespace {

// Where the white space before `end` begins, but not before `least`.
size_t white_space_before(std::string_view text, size_t end, size_t least) {
  while (end > least) {
    CodePoint point = code_point_before(text, end);
    if (!is_white_space(point.value)) break;
    end -= point.length;
  }
  return end;
}

// Where the white space after a place ends. Remembers the last one that it walked over: the tokens in a long one may each ask.
class WhiteSpaceAfter {
 public:
  explicit WhiteSpaceAfter(std::string_view text) : text_(text) {}
  size_t operator()(size_t at) {
    if (begin_ <= at && at <= end_) return end_;
    begin_ = at;
    while (at < text_.size()) {
      CodePoint point = code_point_at(text_, at);
      if (!is_white_space(point.value)) break;
      at += point.length;
    }
    return end_ = at;
  }

 private:
  std::string_view text_;
  size_t begin_ = 1, end_ = 0;
};

bool stands_alone(std::string_view text, size_t begin, size_t end) {
  return (begin == 0 || !is_word_char(code_point_before(text, begin).value)) && (end == text.size() || !is_word_char(code_point_at(text, end).value));
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<std::string> contents, std::vector<const AddedToken*> tokens) {
  for (size_t i = 0; i < contents.size(); ++i) {
    if (!contents[i].empty()) entries_.push_back({std::move(contents[i]), tokens[i]});
  }
  std::stable_sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) { return a.content < b.content; });
  entries_.erase(std::unique(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) { return a.content == b.content; }), entries_.end());
  for (const Entry& entry : entries_) ++begins_[static_cast<unsigned char>(entry.content[0]) + 1u];
  for (size_t byte = 0; byte < 256; ++byte) {
    if (begins_[byte + 1] == entries_.size() && !entries_.empty()) only_first_ = static_cast<int>(byte);
    begins_[byte + 1] += begins_[byte];
  }
}

// Narrows the entries that share a prefix with `text`, byte by byte.
const AddedTokenMatcher::Entry* AddedTokenMatcher::longest_at(std::string_view text) const {
  const auto first = static_cast<unsigned char>(text[0]);
  auto low = entries_.begin() + begins_[first], high = entries_.begin() + begins_[first + 1u];
  const Entry* longest = nullptr;
  for (size_t depth = 1; low != high; ++depth) {
    if (low->content.size() == depth) longest = &*low++;
    if (low == high || depth == text.size()) break;
    const auto byte = static_cast<unsigned char>(text[depth]);
    auto byte_of = [depth](const Entry& entry) { return static_cast<unsigned char>(entry.content[depth]); };
    low = std::partition_point(low, high, [&](const Entry& entry) { return byte_of(entry) < byte; });
    high = std::partition_point(low, high, [&](const Entry& entry) { return byte_of(entry) <= byte; });
  }
  return longest;
}

void AddedTokenMatcher::find(std::string_view text, std::vector<Part>& parts) const {
  size_t done = 0;  // where the next part begins
  WhiteSpaceAfter white_space_after(text);
  for (size_t at = 0; !entries_.empty() && at < text.size();) {
    if (only_first_ >= 0) {
      const void* next = std::memchr(text.data() + at, only_first_, text.size() - at);
      if (next == nullptr) break;
      at = static_cast<size_t>(static_cast<const char*>(next) - text.data());
    } else if (const auto byte = static_cast<unsigned char>(text[at]); begins_[byte] == begins_[byte + 1u]) {
      ++at;
      continue;
    }
    const Entry* entry = longest_at(text.substr(at));
    if (entry == nullptr) {
      ++at;
      continue;
    }
    size_t begin = at, end = at + entry->content.size();
    at = end;
    if (entry->token->single_word && !stands_alone(text, begin, end)) continue;
    if (entry->token->lstrip) begin = std::max(white_space_before(text, begin, done), done);
    if (entry->token->rstrip) end = white_space_after(end);
    if (done < begin) parts.push_back({done, begin, nullptr});
    parts.push_back({begin, end, entry->token});
    // A token in the white space that an rstrip token took is found again, and what follows is cut after it, as there.
    done = end;
  }
  if (done < text.size()) parts.push_back({done, text.size(), nullptr});
}

}  // namespace cairn::dataset
