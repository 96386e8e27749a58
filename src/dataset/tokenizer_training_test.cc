#include "dataset/tokenizer_training.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "dataset/tokenizer.h"

namespace cairn::dataset {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() {
    std::string path = (fs::temp_directory_path() / "cairn-tokenizer-XXXXXX").string();
    EXPECT_NE(mkdtemp(path.data()), nullptr);
    path_ = path;
  }
  ~Folder() { fs::remove_all(path_); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream file(path_ / name, std::ios::binary);
    file << text;
  }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

TokenizerTrainingOptions options_for(const Folder& folder, uint32_t vocab_size) {
  TokenizerTrainingOptions options;
  options.source.inputs = {folder.path()};
  options.vocab_size = vocab_size;
  return options;
}

std::string sentences(uint64_t seed, size_t count) {
  static const std::vector<std::string> words = {"the", "cat", "sat", "on", "mat", "caf\xC3\xA9", "cafe\xCC\x81", "\xE6\x97\xA5\xE6\x9C\xAC", "and", "then", "there", "1234", "isn't", "it's"};
  SeededRandom random(seed);
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    text += words[random.below(words.size())];
    text += random.below(9) == 0 ? ".\n" : " ";
  }
  return text;
}

TEST(TokenizerTraining, WritesATokenizerThatSpellsItsText) {
  Folder folder;
  folder.write("a.txt", sentences(1, 3000));
  folder.write("b.jsonl", nlohmann::json({{"text", sentences(2, 500)}}).dump() + "\n" + nlohmann::json({{"text", "other \xFF"}}).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  auto trained = train_tokenizer(options_for(folder, 300));
  ASSERT_TRUE(trained.has_value()) << trained.error().to_string();
  EXPECT_EQ(trained->documents, 3u);
  EXPECT_EQ(trained->vocab_size, 300u);
  EXPECT_EQ(trained->merges, 300u - 256 - 9);
  auto tokenizer = Tokenizer::parse(trained->tokenizer_json, "learned");
  ASSERT_TRUE(tokenizer.has_value());
  EXPECT_EQ((*tokenizer)->id_of("<|endoftext|>"), std::optional<uint32_t>(291));
  EXPECT_EQ((*tokenizer)->id_of("</think>"), std::optional<uint32_t>(299));
  std::vector<uint32_t> ids;
  auto encoder = Encoder::create(*tokenizer);
  ASSERT_TRUE(encoder->encode("the cat<|im_end|>", ids));
  EXPECT_EQ((*tokenizer)->decode(ids), "the cat<|im_end|>");
  EXPECT_LE(ids.size(), 4u);
  const auto config = nlohmann::json::parse(trained->tokenizer_config_json);
  EXPECT_EQ(config["eos_token"], "<|endoftext|>");
  EXPECT_EQ(config["added_tokens_decoder"]["291"]["content"], "<|endoftext|>");
}

TEST(TokenizerTraining, IsTheSameForAnyNumberOfThreadsAlsoWhenWordsAreDropped) {
  Folder folder;
  for (int file = 0; file < 12; ++file) folder.write("f" + std::to_string(file) + ".txt", sentences(static_cast<uint64_t>(file), 800) + "unique" + std::string(static_cast<size_t>(file) + 1, 'q'));
  for (size_t words_max : {size_t{16} << 20, size_t{20}}) {
    std::string expected;
    for (size_t threads : {1u, 2u, 5u}) {
      TokenizerTrainingOptions options = options_for(folder, 400);
      options.threads = threads;
      options.limits.words_max = words_max;
      options.limits.blocks_a_round = 2;
      auto trained = train_tokenizer(options);
      ASSERT_TRUE(trained.has_value()) << trained.error().to_string();
      EXPECT_EQ(trained->rare_dropped > 0, words_max == 20);
      if (expected.empty()) expected = trained->tokenizer_json;
      EXPECT_EQ(trained->tokenizer_json, expected) << threads;
    }
  }
}

TEST(TokenizerTraining, LeavesOutWordsWithoutEnd) {
  Folder folder;
  folder.write("a.txt", "short words " + std::string(100'000, 'z'));
  auto trained = train_tokenizer(options_for(folder, 300));
  ASSERT_TRUE(trained.has_value()) << trained.error().to_string();
  EXPECT_EQ(trained->long_left_out, 1u);
  EXPECT_EQ(trained->words, 2u);
}

TEST(TokenizerTraining, RefusesWhatCannotBe) {
  Folder folder;
  folder.write("a.txt", "text");
  auto refusal = [](const TokenizerTrainingOptions& options) {
    auto trained = train_tokenizer(options);
    return trained ? "accepted" : trained.error().to_string();
  };
  EXPECT_THAT(refusal(options_for(folder, 264)), testing::HasSubstr("config_invalid: a vocabulary of 264 entries; it must be from 265"));
  EXPECT_EQ(refusal(options_for(folder, 265)), "accepted");
  TokenizerTrainingOptions options = options_for(folder, 300);
  options.eos_token = "<end>";
  EXPECT_THAT(refusal(options), testing::HasSubstr("config_invalid: the end-of-text token \"<end>\""));
  options.added_tokens.push_back({"<end>", true});
  EXPECT_EQ(refusal(options), "accepted");
  options.added_tokens.push_back({"<end>", false});
  EXPECT_THAT(refusal(options), testing::HasSubstr("given twice"));
  options.added_tokens.back().content = "x";
  EXPECT_THAT(refusal(options), testing::HasSubstr("is not 2 to 256 bytes"));
  Folder empty;
  empty.write("a.txt", "");
  EXPECT_FALSE(train_tokenizer(options_for(empty, 300)).has_value());
}

// A token that is a word of the text is learned too; it then keeps the id of its vocabulary entry.
TEST(TokenizerTraining, AnAddedTokenMayBeALearnedOne) {
  Folder folder;
  std::string text;
  for (int i = 0; i < 50; ++i) text += "word\n";
  folder.write("a.txt", text);
  TokenizerTrainingOptions options = options_for(folder, 400);
  options.added_tokens.push_back({"word", true});
  auto trained = train_tokenizer(options);
  ASSERT_TRUE(trained.has_value()) << trained.error().to_string();
  auto tokenizer = Tokenizer::parse(trained->tokenizer_json, "learned");
  ASSERT_TRUE(tokenizer.has_value());
  EXPECT_LT((*tokenizer)->id_of("word").value_or(0), 256 + trained->merges);
}

TEST(TokenizerTraining, SaysWhatItPassedOver) {
  Folder folder;
  folder.write("a.txt", "some words and some more words");
  folder.write("b.txt", "");
  folder.write("c.csv", "not,a,document");
  auto trained = train_tokenizer(options_for(folder, 270));
  ASSERT_TRUE(trained) << trained.error().message();
  EXPECT_EQ(trained->passed_over.empty, 1u);
  EXPECT_EQ(trained->passed_over.other, 1u);
  EXPECT_EQ(trained->passed_over.first, (std::vector<std::string>{folder.path() + "/b.txt", folder.path() + "/c.csv"}));
}

}  // namespace
}  // namespace cairn::dataset
