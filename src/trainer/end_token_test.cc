#include "trainer/end_token.h"

#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "testing/temporary_folder.h"

namespace cairn::trainer {
namespace {

constexpr uint32_t kEndOfText = 700, kEndOfTurn = 702, kOrdinary = 8;

std::shared_ptr<const dataset::Tokenizer> tokenizer_of(const std::string& replaced = "", const std::string& by = "") {
  std::ifstream file(CAIRN_SOURCE_DIR "/tests/golden/tokenizer/tokenizer.json");
  std::stringstream text;
  text << file.rdbuf();
  std::string json = text.str();
  if (!replaced.empty()) json.replace(json.find(replaced), replaced.size(), by);
  auto tokenizer = dataset::Tokenizer::parse(json, "tokenizer.json");
  EXPECT_TRUE(tokenizer) << tokenizer.error().message();
  return *tokenizer;
}

TEST(EndToken, IsTheOneThatTheConfigNames) {
  testing::TemporaryFolder folder;
  auto with = [&](const std::string& config) {
    std::ofstream(folder / "tokenizer_config.json", std::ios::trunc) << config;
    return end_token(*tokenizer_of(), folder.path());
  };
  EXPECT_EQ(with(R"({"eos_token": "<|im_end|>"})"), kEndOfTurn);
  EXPECT_EQ(with(R"({"eos_token": {"content": "<|im_end|>", "special": true}})"), kEndOfTurn);
  for (const char* of_no_use : {"", "{", "[]", "{}", R"({"eos_token": null})", R"({"eos_token": {"content": 1}})", R"({"eos_token": "<none>"})"}) {
    EXPECT_EQ(with(of_no_use), kEndOfText) << of_no_use;
  }
}

TEST(EndToken, IsElseASpecialTokenOfAUsualName) {
  testing::TemporaryFolder folder;
  EXPECT_EQ(end_token(*tokenizer_of(), folder.path()), kEndOfText);
  EXPECT_EQ(end_token(*tokenizer_of("\"<|endoftext|>\"", "\"</s>\""), folder.path()), kEndOfText);
  EXPECT_EQ(end_token(*tokenizer_of("\"<|endoftext|>\"", "\"<other>\""), folder.path()), std::nullopt);
}

TEST(Tokenizer, KnowsItsSpecialTokens) {
  auto tokenizer = tokenizer_of();
  EXPECT_TRUE(tokenizer->is_special(kEndOfText));
  EXPECT_FALSE(tokenizer->is_special(kOrdinary));
  EXPECT_FALSE(tokenizer->is_special(703));  // <think>: added, not special
  EXPECT_FALSE(tokenizer->is_special(1'000'000));
}

}  // namespace
}  // namespace cairn::trainer
