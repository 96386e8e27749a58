#include "config/nearest.h"

#include <algorithm>
#include <tuple>

namespace cairn::config {
namespace {

// Greater for the likelier of two equally near words: people get the beginning of a word right, then its end, then its length.
// What is left is the order of the alphabet.
std::tuple<size_t, size_t, size_t> likeness(std::string_view word, std::string_view candidate) {
  size_t shorter = std::min(word.size(), candidate.size());
  size_t prefix = 0, suffix = 0;
  while (prefix < shorter && word[prefix] == candidate[prefix]) ++prefix;
  while (suffix < shorter - prefix && word[word.size() - 1 - suffix] == candidate[candidate.size() - 1 - suffix]) ++suffix;
  return {prefix, suffix, SIZE_MAX - (std::max(word.size(), candidate.size()) - shorter)};
}

bool likelier(std::string_view word, const std::string& candidate, const std::string& than) {
  auto one = likeness(word, candidate), other = likeness(word, than);
  return one != other ? one > other : candidate < than;
}

}  // namespace

size_t edit_distance(std::string_view a, std::string_view b, size_t limit) {
  size_t difference = a.size() > b.size() ? a.size() - b.size() : b.size() - a.size();
  if (difference > limit || a.size() > 256 || b.size() > 256) return limit + 1;
  std::vector<size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t cost = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + cost});
      bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last.swap(last);
    last.swap(row);
  }
  return std::min(last[b.size()], limit + 1);
}

std::optional<std::string> nearest_word(std::string_view word, const std::vector<std::string>& known) {
  size_t limit = std::clamp<size_t>(word.size() / 3, 1, 3);
  std::optional<std::string> best;
  size_t best_distance = limit + 1;
  for (const std::string& candidate : known) {
    size_t distance = edit_distance(word, candidate, limit);
    if (distance > limit) continue;
    if (distance < best_distance || (distance == best_distance && likelier(word, candidate, *best))) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace cairn::config
