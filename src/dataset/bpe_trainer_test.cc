#include "dataset/bpe_trainer.h"

#include <fstream>
#include <map>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "codec/hex.h"
#include "dataset/byte_alphabet.h"
#include "dataset/split_pattern.h"
#include "dataset/unicode_classes.h"

namespace cairn::dataset {
namespace {

using Json = nlohmann::json;
using Merges = std::vector<std::array<uint32_t, 2>>;

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

CountedWords counted(const std::map<std::string, uint64_t>& words) {
  CountedWords all;
  for (const auto& [word, count] : words) {
    all.bytes += word;
    all.ends.push_back(all.bytes.size());
    all.counts.push_back(count);
  }
  return all;
}

Status split_all(Splitter& splitter, std::string_view text, std::vector<size_t>& ends) {
  for (size_t from = 0; from < text.size();) CAIRN_CHECK_OK(splitter.split(text, from, 10, ends));
  return ok();
}

std::map<std::string, uint64_t> words_of(const std::vector<std::string>& documents) {
  auto pattern = SplitPattern::compile(kQwenPattern, "test");
  EXPECT_TRUE(pattern.has_value());
  auto splitter = Splitter::create(*pattern);
  std::map<std::string, uint64_t> words;
  for (const std::string& document : documents) {
    std::string text;
    std::vector<size_t> ends;
    EXPECT_TRUE(to_nfc(document, text, nullptr));
    EXPECT_TRUE(split_all(*splitter, text, ends));
    size_t begin = 0;
    for (size_t end : ends) {
      ++words[text.substr(begin, end - begin)];
      begin = end;
    }
  }
  return words;
}

// tokenizer.json among the goldens was learned by Hugging Face's trainer.
TEST(BpeTrainer, LearnsWhatHuggingFaceLearns) {
  const std::string folder = CAIRN_SOURCE_DIR "/tests/golden/tokenizer/";
  const Json cases = Json::parse(read_file(folder + "cases.json"));
  std::vector<std::string> documents = {read_file(CAIRN_SOURCE_DIR "/LICENSE")};
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < cases[0]["learned_from"].get<size_t>(); ++i) documents.push_back(codec::hex_decode_text(cases[0]["cases"][i][0].get<std::string>()).value());
  }
  const Json model = Json::parse(read_file(folder + "tokenizer.json"))["model"];
  WorkerTeam team(2);
  const LearnedBpe learned = learn_bpe(counted(words_of(documents)), 700, 0, team, {});
  ASSERT_EQ(learned.tokens.size(), 700u);
  for (uint32_t id = 0; id < learned.tokens.size(); ++id) EXPECT_EQ(model["vocab"].value(spell_bytes(learned.tokens[id]), -1), static_cast<int>(id));
  ASSERT_EQ(learned.merges.size(), model["merges"].size());
  for (size_t i = 0; i < learned.merges.size(); ++i) {
    EXPECT_EQ(Json({spell_bytes(learned.tokens[learned.merges[i][0]]), spell_bytes(learned.tokens[learned.merges[i][1]])}), model["merges"][i]) << i;
  }
}

// Counts all pairs anew for each merge; stops where a token comes up by other parts, which Hugging Face's trainer counts in a way
// of its own.
Merges learned_slowly(const std::map<std::string, uint64_t>& words, const StringTable& bytes, size_t merges_max) {
  std::vector<std::pair<std::vector<uint32_t>, uint64_t>> split;
  StringTable tokens;
  for (uint32_t id = 0; id < 256; ++id) tokens.add(bytes[id]);
  for (const auto& [word, count] : words) {
    std::vector<uint32_t> ids;
    for (char byte : word) ids.push_back(tokens.find(std::string_view(&byte, 1)));
    split.emplace_back(ids, count);
  }
  Merges merges;
  while (merges.size() < merges_max) {
    std::map<std::array<uint32_t, 2>, uint64_t> pairs;
    for (const auto& [ids, count] : split) {
      for (size_t i = 0; i + 1 < ids.size(); ++i) pairs[{ids[i], ids[i + 1]}] += count;
    }
    std::array<uint32_t, 2> best{};
    uint64_t most = 0;
    for (const auto& [pair, count] : pairs) {
      if (count > most) {
        best = pair;
        most = count;
      }
    }
    if (most == 0) break;
    const std::string joined = std::string(tokens[best[0]]) + std::string(tokens[best[1]]);
    if (tokens.find(joined) != kNoId) break;
    const uint32_t id = tokens.add(joined);
    merges.push_back(best);
    for (auto& [ids, count] : split) {
      std::vector<uint32_t> merged;
      for (size_t i = 0; i < ids.size(); ++i) {
        const bool found = i + 1 < ids.size() && ids[i] == best[0] && ids[i + 1] == best[1];
        merged.push_back(found ? id : ids[i]);
        if (found) ++i;
      }
      ids = merged;
    }
  }
  return merges;
}

TEST(BpeTrainer, MergesTheMostFrequentPairEachTime) {
  const uint64_t seed = system_random().next_u64();
  SeededRandom random(seed);
  size_t compared = 0;
  for (int round = 0; round < 60; ++round) {
    std::map<std::string, uint64_t> words;
    const uint64_t letters = 2 + random.below(12), count = 1 + random.below(40);
    for (uint64_t i = 0; i < count; ++i) {
      std::string word;
      for (uint64_t length = 1 + random.below(12); length > 0; --length) word += static_cast<char>(random.below(4) == 0 ? 0xC0 + random.below(letters) : 'a' + random.below(letters));
      words[word] += 1 + random.below(5);
    }
    WorkerTeam team(1);
    const LearnedBpe fast = learn_bpe(counted(words), 320, 0, team, {});
    const Merges slow = learned_slowly(words, fast.tokens, 64);
    ASSERT_GE(fast.merges.size(), slow.size()) << "seed " << seed;
    // A pair that is merged again later moves to its last rank, so the lists are compared where none was.
    if (fast.tokens.size() == 256 + fast.merges.size()) {
      ASSERT_TRUE(std::equal(slow.begin(), slow.end(), fast.merges.begin())) << "seed " << seed << " round " << round;
      compared += slow.size();
    }
  }
  EXPECT_GT(compared, 50u) << "seed " << seed;
}

TEST(BpeTrainer, GivesTheSameForAnyNumberOfThreads) {
  SeededRandom random(5);
  std::map<std::string, uint64_t> words;
  while (words.size() < 6000) {
    std::string word;
    for (uint64_t length = 2 + random.below(9); length > 0; --length) word += static_cast<char>("etaoin shrdlu"[random.below(13)]);
    words[word] += 1 + random.below(50);
  }
  WorkerTeam one(1);
  const LearnedBpe expected = learn_bpe(counted(words), 1500, 2, one, {});
  ASSERT_GT(expected.merges.size(), 1000u);
  for (size_t threads : {2u, 3u, 7u}) {
    WorkerTeam team(threads);
    const LearnedBpe learned = learn_bpe(counted(words), 1500, 2, team, {});
    EXPECT_EQ(learned.merges, expected.merges) << threads;
    ASSERT_EQ(learned.tokens.size(), expected.tokens.size());
    for (uint32_t id = 0; id < expected.tokens.size(); ++id) ASSERT_EQ(learned.tokens[id], expected.tokens[id]);
  }
}

TEST(BpeTrainer, StopsWhenNoPairIsFrequentEnough) {
  WorkerTeam team(1);
  const LearnedBpe learned = learn_bpe(counted({{"abab", 1}, {"cd", 4}, {"x", 9}}), 5000, 2, team, {});
  ASSERT_EQ(learned.merges.size(), 2u);
  EXPECT_EQ(learned.tokens[256], "cd");
  EXPECT_EQ(learned.tokens[257], "ab");
  EXPECT_EQ(learn_bpe(CountedWords(), 5000, 0, team, {}).tokens.size(), 256u);
}

}  // namespace
}  // namespace cairn::dataset
