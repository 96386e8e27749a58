#include "dataset/added_tokens.h"

#include <algorithm>
#include <deque>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "dataset/unicode_classes.h"

namespace cairn::dataset {
namespace {

using Span = std::tuple<size_t, size_t, const AddedToken*>;

class Tokens {
 public:
  void add(const std::string& content, bool single_word, bool lstrip, bool rstrip) {
    AddedToken token;
    token.content = content;
    token.single_word = single_word;
    token.lstrip = lstrip;
    token.rstrip = rstrip;
    tokens_.push_back(std::move(token));
  }

  std::vector<Span> found(std::string_view text) const {
    std::vector<std::string> contents;
    std::vector<const AddedToken*> tokens;
    for (const AddedToken& token : tokens_) {
      contents.push_back(token.content);
      tokens.push_back(&token);
    }
    std::vector<AddedTokenMatcher::Part> parts;
    AddedTokenMatcher(std::move(contents), std::move(tokens)).find(text, parts);
    std::vector<Span> spans;
    for (const AddedTokenMatcher::Part& part : parts) spans.emplace_back(part.begin, part.end, part.token);
    return spans;
  }

  // The loop of Hugging Face's AddedVocabulary::find_matches, word for word, over ASCII.
  std::vector<Span> wanted(std::string_view text) const {
    auto blank = [&](size_t at) { return is_white_space(static_cast<unsigned char>(text[at])); };
    auto word = [&](size_t at) { return is_word_char(static_cast<unsigned char>(text[at])); };
    std::vector<Span> spans;
    size_t start_offset = 0;
    for (size_t at = 0; at < text.size();) {
      const AddedToken* token = nullptr;
      for (const AddedToken& one : tokens_) {
        bool longer = token == nullptr || one.content.size() > token->content.size();
        if (longer && text.substr(at).starts_with(one.content)) token = &one;
      }
      if (token == nullptr) {
        ++at;
        continue;
      }
      size_t start = at, stop = at + token->content.size();
      at = stop;
      if (token->single_word && ((start > 0 && word(start - 1)) || (stop < text.size() && word(stop)))) continue;
      if (token->lstrip) {
        while (start > 0 && blank(start - 1)) --start;
        start = std::max(start, start_offset);
      }
      while (token->rstrip && stop < text.size() && blank(stop)) ++stop;
      if (start_offset < start) spans.emplace_back(start_offset, start, nullptr);
      spans.emplace_back(start, stop, token);
      start_offset = stop;
    }
    if (start_offset < text.size()) spans.emplace_back(start_offset, text.size(), nullptr);
    return spans;
  }

 private:
  std::deque<AddedToken> tokens_;
};

TEST(AddedTokens, AreFoundAsHuggingFaceFindsThem) {
  uint64_t seed = 11;
  SCOPED_TRACE(seed);
  SeededRandom random(seed);
  constexpr std::string_view kLetters = "  \t\nab.";
  auto random_text = [&](size_t size) {
    std::string text;
    for (size_t i = 0; i < size; ++i) text += kLetters[random.below(kLetters.size())];
    return text;
  };
  for (int round = 0; round < 20'000; ++round) {
    Tokens tokens;
    std::vector<std::string> seen;
    for (uint64_t n = 1 + random.below(4); n > 0; --n) {
      std::string content = random_text(1 + random.below(3));
      if (std::find(seen.begin(), seen.end(), content) != seen.end()) continue;
      seen.push_back(content);
      tokens.add(content, random.below(4) == 0, random.below(2) == 0, random.below(2) == 0);
    }
    std::string text = random_text(random.below(30));
    ASSERT_EQ(tokens.found(text), tokens.wanted(text)) << "'" << text << "'";
  }
}

// Megabytes of blanks, each of them a token that takes blanks: looking over all of them for each would never end.
TEST(AddedTokens, BlanksAreLookedAtOnce) {
  const std::string blanks(2'000'000, ' ');
  for (auto [lstrip, rstrip] : {std::pair(true, false), std::pair(false, true), std::pair(true, true)}) {
    Tokens tokens;
    tokens.add(" ", false, lstrip, rstrip);
    EXPECT_EQ(tokens.found(blanks).size(), blanks.size());
  }
  // One that takes nothing lies in what the one before it took.
  Tokens tokens;
  tokens.add("a", false, true, true);
  tokens.add("\t", false, true, false);
  std::string text = "a";
  for (int i = 0; i < 500'000; ++i) text += " \t ";
  EXPECT_GE(tokens.found(text).size(), 500'000u);
}

}  // namespace
}  // namespace cairn::dataset
