// From a config to rows, with a tokenizer.json as it lies beside a model.
#include "trainer/sft_data.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/temporary_folder.h"

namespace cairn::trainer {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kConfig = R"(max_steps = 1
[model]
name = "model"
[data]
name = "chat.jsonl"
batch_size = 2
seq_len = 64
shuffle = false
[data.loss_mask]
user = true
[renderer]
name = "RENDERER"
)";

class SftData : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(folder_ / "model");
    std::filesystem::copy_file(CAIRN_SOURCE_DIR "/tests/golden/tokenizer/tokenizer.json", folder_ / "model/tokenizer.json");
    std::ofstream(folder_ / "chat.jsonl") << R"({"prompt": "Größe?", "completion": "Ça va 🙂"})" << "\n";
  }

  static config::TrainingConfig config_with(const std::string& renderer) {
    std::string text(kConfig);
    text.replace(text.find("RENDERER"), 8, renderer);
    auto config = config::parse_training_config(text, "sft.toml");
    EXPECT_TRUE(config) << config.error().message();
    return *config;
  }

  std::string trained_text(const std::string& renderer) { return trained_text(config_with(renderer), 0); }

  std::string trained_text(const config::TrainingConfig& config, int64_t positions_max) {
    auto tokenizer = open_tokenizer(config, folder_.path());
    if (!tokenizer) return tokenizer.error().message();
    auto rows = open_sft_rows({config, config.data, true, (*tokenizer)->vocab_size(), positions_max, folder_.path(), {}}, *tokenizer);
    if (!rows) return rows.error().message();
    auto row = (*rows)->next();
    if (!row) return row.error().message();
    EXPECT_EQ((*rows)->progress().epoch, 1);
    std::vector<uint32_t> ids;
    for (size_t i = 0; i < row->target_ids.size(); ++i) {
      if (row->loss_mask[i] != 0) ids.push_back(static_cast<uint32_t>(row->target_ids[i]));
    }
    return (*tokenizer)->decode(ids);
  }

  testing::TemporaryFolder folder_;
};

TEST_F(SftData, WhatIsLearntIsWhatTheConfigSays) {
  EXPECT_EQ(trained_text("prime-qwen3"), "Größe?Ça va 🙂<|im_end|>");
  EXPECT_EQ(trained_text("qwen3"), "Größe?<think>\n\n</think>\n\nÇa va 🙂<|im_end|>");
}

// A row of several passes' worth of tokens holds samples that the model could not see whole.
TEST_F(SftData, SamplesEndWhereTheModelDoes) {
  config::TrainingConfig config = config_with("prime-qwen3");
  std::string whole = trained_text(config, 0);
  EXPECT_EQ(trained_text(config, 64), whole);
  config.data.seq_len = 20;
  config.data.micro_batch_size = 4;
  EXPECT_EQ(trained_text(config, 0), whole);
  std::string cut = trained_text(config, 20);
  EXPECT_LT(cut.size(), whole.size());
  EXPECT_EQ(whole.substr(0, cut.size()), cut);
  // [model] seq_len is what the config asks for, and was found to fit the model.
  config.model.seq_len = 20;
  EXPECT_EQ(trained_text(config, 64), cut);
}

TEST_F(SftData, NamesWhatIsMissingOrDoesNotFit) {
  config::TrainingConfig config = config_with("qwen3");
  auto tokenizer = open_tokenizer(config, folder_.path());
  ASSERT_TRUE(tokenizer);
  auto small = open_sft_rows({config, config.data, false, 10, 0, folder_.path(), {}}, *tokenizer);
  ASSERT_FALSE(small);
  EXPECT_EQ(small.error().code(), Code::kConfigInvalid);
  EXPECT_THAT(small.error().message(), HasSubstr("but the model only 10"));

  std::filesystem::remove(folder_ / "model/tokenizer.json");
  auto missing = open_tokenizer(config, folder_.path());
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), Code::kDataMissingOnVolume);
  EXPECT_EQ(missing.error().message(), "there is no tokenizer.json in 'model'");
}

}  // namespace
}  // namespace cairn::trainer
