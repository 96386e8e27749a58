#include "trainer/training_data.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dataset/shard_fixture.h"
#include "testing/temporary_folder.h"

namespace cairn::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint32_t kNewline = 198, kEndOfText = 700;

std::vector<std::string> warnings_of(const std::string& volume, const DecoderSpec& spec) {
  config::TrainingConfig config;
  config.mode = config::TrainingMode::kPretrain;
  config.model.name = "model";
  config.data.kind = config::DataKind::kShards;
  config.data.paths = {"shards"};
  config.data.seq_len = 2;
  config.data.micro_batch_size = 1;
  auto rows = open_rows(config, spec, volume, {});
  EXPECT_TRUE(rows) << rows.error().message();
  return rows ? rows->warnings : std::vector<std::string>{"none opened"};
}

// A config.json for random weights often names no eos_token_id: the tokenizer beside it does.
TEST(TrainingData, LooksForTheTokenizersSeparatorWhereTheModelNamesNone) {
  testing::TemporaryFolder volume;
  DecoderSpec spec;
  spec.vocab_size = 1000;
  dataset::test::write_shard(volume / "shards/a.ds", 2, {{1, 2, kNewline}, {3, 4, kNewline}});
  EXPECT_THAT(warnings_of(volume.path(), spec), IsEmpty());  // nobody knows what ends a text
  std::filesystem::create_directories(volume / "model");
  std::filesystem::copy_file(CAIRN_SOURCE_DIR "/tests/golden/tokenizer/tokenizer.json", volume / "model/tokenizer.json");
  EXPECT_THAT(warnings_of(volume.path(), spec), ElementsAre(HasSubstr("No separator (id 700)")));
  spec.eos_token_ids = {702};
  EXPECT_THAT(warnings_of(volume.path(), spec), ElementsAre(HasSubstr("No separator (id 702)")));
  std::filesystem::remove_all(volume / "shards");
  dataset::test::write_shard(volume / "shards/a.ds", 2, {{1, 2, kEndOfText}, {3, 4, kEndOfText}});
  EXPECT_THAT(warnings_of(volume.path(), spec), IsEmpty());
}

}  // namespace
}  // namespace cairn::trainer
