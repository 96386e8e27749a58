#include "trainer/training_model.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/temporary_folder.h"

namespace cairn::trainer {
namespace {

using ::testing::HasSubstr;

const std::string kTiny = std::string(CAIRN_SOURCE_DIR) + "/tests/golden/decoder/qwen3_tied";  // 64 positions

config::TrainingConfig config_of(const std::string& model, const std::string& data = "") {
  auto config = config::parse_training_config("mode = \"sft\"\n[model]\nname = \"m\"\n" + model + "\n[data]\ntype = \"fake\"\nseq_len = 32\n" + data,
                                              "t.toml");
  EXPECT_TRUE(config) << config.error().to_string();
  return config ? *config : config::TrainingConfig();
}

TEST(TrainingSpec, NoSequenceIsLongerThanTheModelSees) {
  EXPECT_TRUE(training_spec(config_of(""), kTiny));
  EXPECT_TRUE(training_spec(config_of("seq_len = 64"), kTiny));
  auto refused = training_spec(config_of("seq_len = 65"), kTiny);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kConfigInvalid);
  EXPECT_THAT(refused.error().message(), HasSubstr("model.seq_len = 65 is more than the model's max_position_embeddings = 64"));
  config::TrainingConfig config = config_of("");
  config.data.seq_len = 65;
  EXPECT_THAT(training_spec(config, kTiny).error().message(), HasSubstr("data.seq_len = 65"));
}

}  // namespace
}  // namespace cairn::trainer
