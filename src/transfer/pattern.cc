// PatternList: the gitignore subset that scan.h describes.
#include "transfer/scan.h"

namespace cairn::transfer {
namespace {

// Matches one class "[...]" at pattern[p] against c; moves p behind it. A class that is not closed matches a literal '['.
bool match_class(std::string_view pattern, size_t& p, char c) {
  size_t i = p + 1;
  bool negated = i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^');
  if (negated) ++i;
  bool found = false;
  bool first = true;
  for (; i < pattern.size() && (first || pattern[i] != ']'); first = false) {
    auto take = [&] {
      if (pattern[i] == '\\' && i + 1 < pattern.size()) ++i;
      return static_cast<unsigned char>(pattern[i++]);
    };
    unsigned char low = take();
    unsigned char high = low;
    if (i + 1 < pattern.size() && pattern[i] == '-' && pattern[i + 1] != ']') {
      ++i;
      high = take();
    }
    unsigned char value = static_cast<unsigned char>(c);
    if (low <= value && value <= high) found = true;
  }
  if (i >= pattern.size()) {
    ++p;
    return c == '[';
  }
  p = i + 1;
  return c != '/' && found != negated;
}

// One character of the pattern that is no star; moves p and t when it matches.
bool match_one(std::string_view pattern, size_t& p, std::string_view text, size_t& t) {
  char c = text[t];
  if (pattern[p] == '?') {
    if (c == '/') return false;
    ++p;
  } else if (pattern[p] == '[') {
    size_t behind = p;
    if (!match_class(pattern, behind, c)) return false;
    p = behind;
  } else {
    size_t at = pattern[p] == '\\' && p + 1 < pattern.size() ? p + 1 : p;
    if (pattern[at] != c) return false;
    p = at + 1;
  }
  ++t;
  return true;
}

// Greedy with two places to fall back to, the last '*' and the last '**': linear in practice, quadratic at worst.
bool glob_match(std::string_view pattern, std::string_view text) {
  constexpr size_t kNone = static_cast<size_t>(-1);
  size_t p = 0, t = 0;
  size_t star_p = kNone, star_t = 0;      // '*': does not cross '/'
  size_t stars_p = kNone, stars_t = 0;    // '**'
  bool stars_segments = false;            // "**/": goes on at segment starts only
  while (true) {
    if (p < pattern.size() && pattern[p] == '*') {
      if (p + 1 < pattern.size() && pattern[p + 1] == '*') {
        p += 2;
        stars_segments = p < pattern.size() && pattern[p] == '/' && (p < 3 || pattern[p - 3] == '/');
        if (stars_segments) ++p;
        stars_p = p;
        stars_t = t;
        star_p = kNone;
      } else {
        star_p = ++p;
        star_t = t;
      }
      continue;
    }
    if (p == pattern.size() && t == text.size()) return true;
    if (p < pattern.size() && t < text.size() && match_one(pattern, p, text, t)) continue;
    if (star_p != kNone && star_t < text.size() && text[star_t] != '/') {
      p = star_p;
      t = ++star_t;
      continue;
    }
    if (stars_p == kNone) return false;
    if (stars_segments) {
      size_t slash = text.find('/', stars_t);
      if (slash == std::string_view::npos) return false;
      stars_t = slash + 1;
    } else if (stars_t < text.size()) {
      ++stars_t;
    } else {
      return false;
    }
    p = stars_p;
    t = stars_t;
    star_p = kNone;
  }
}

}  // namespace

void PatternList::add_line(std::string_view line) {
  constexpr size_t kPatternBytesMax = 4096;
  constexpr size_t kPatternsMax = 10'000;
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  while (!line.empty() && line.back() == ' ' && (line.size() < 2 || line[line.size() - 2] != '\\')) line.remove_suffix(1);
  if (line.empty() || line.front() == '#' || line.size() > kPatternBytesMax || patterns_.size() >= kPatternsMax) return;
  Pattern pattern;
  if (line.front() == '!') {
    pattern.negated = true;
    line.remove_prefix(1);
  }
  if (!line.empty() && line.back() == '/') {
    pattern.directories_only = true;
    line.remove_suffix(1);
  }
  pattern.anchored = line.find('/') != std::string_view::npos;
  if (!line.empty() && line.front() == '/') line.remove_prefix(1);
  if (line.empty()) return;
  pattern.glob = std::string(line);
  patterns_.push_back(std::move(pattern));
}

void PatternList::add_file(std::string_view text) {
  while (!text.empty()) {
    size_t end = text.find('\n');
    add_line(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
}

std::optional<bool> PatternList::match(std::string_view path, bool is_directory) const {
  size_t slash = path.rfind('/');
  std::string_view name = slash == std::string_view::npos ? path : path.substr(slash + 1);
  for (size_t i = patterns_.size(); i-- > 0;) {
    const Pattern& pattern = patterns_[i];
    if (pattern.directories_only && !is_directory) continue;
    if (glob_match(pattern.glob, pattern.anchored ? path : name)) return !pattern.negated;
  }
  return std::nullopt;
}

}  // namespace cairn::transfer
