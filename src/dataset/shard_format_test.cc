#include "dataset/shard_format.h"

#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "codec/hex.h"
#include "dataset/shard_reader.h"
#include "dataset/shard_writer.h"
#include "testing/temporary_folder.h"

namespace cairn::dataset {
namespace {

std::string golden(const std::string& name) {
  std::ifstream file(CAIRN_SOURCE_DIR "/tests/golden/formats/" + name);
  std::string digits;
  file >> digits;
  auto bytes = codec::hex_decode_text(digits);
  EXPECT_TRUE(bytes.has_value()) << name;
  return bytes.value_or("");
}

TEST(ShardFormat, VectorsOfTheDocument) {
  for (uint32_t width : {2u, 4u}) {
    testing::TemporaryFolder folder;
    std::string path = folder / "x.ds";
    auto writer = ShardWriter::create(os::posix_file_system(), path, width, "tiny");
    ASSERT_TRUE(writer) << writer.error().to_string();
    ASSERT_TRUE((*writer)->append(std::vector<uint32_t>{5, 6, 7, 9}));
    ASSERT_TRUE((*writer)->append(std::vector<uint32_t>{8, 9}));
    ASSERT_TRUE((*writer)->finish());
    std::string stem = "shard_" + std::to_string(width);
    auto written = [&](const std::string& ending) { return os::posix_file_system().read_file(path + ending, 1000).value_or("?"); };
    EXPECT_EQ(written(""), golden(stem + ".ds.hex"));
    EXPECT_EQ(written(".index"), golden("shard_2.index.hex"));
    EXPECT_EQ(written(".metadata"), golden(stem + ".metadata.hex"));
  }
}

TEST(ShardFormat, WidthStandsAfterTheLastBar) {
  EXPECT_EQ(parse_shard_metadata("a|b|4\n7\n7.00 T", "m")->token_size, 4u);
  EXPECT_EQ(parse_shard_metadata("a|b|4\n7\n7.00 T", "m")->tokenizer, "a|b");
  EXPECT_EQ(parse_shard_metadata("Unknown Tokenizer|2|2\n7\n7.00 T", "m")->token_size, 2u);
  EXPECT_EQ(parse_shard_metadata("gpt2\n7\n7.00 T", "m")->token_size, 2u);
  EXPECT_EQ(parse_shard_metadata("a|b\n7\n7.00 T", "m")->tokenizer, "a|b");
  EXPECT_EQ(parse_shard_metadata("gpt2|4", "m")->token_size, 4u);
  EXPECT_FALSE(parse_shard_metadata("gpt2|4", "m")->tokens.has_value());
  EXPECT_EQ(parse_shard_metadata("gpt2|4\r\n12\r\n", "m")->tokens, 12u);
  EXPECT_EQ(parse_shard_metadata("gpt2|8\n7\n", "m").error().code(), Code::kFormatUnsupported);
  EXPECT_EQ(parse_shard_metadata("gpt2|4\nmany\n", "m").error().code(), Code::kDataCorrupt);
  EXPECT_EQ(parse_shard_metadata("gpt2|4\n99999999999999999999\n", "m").error().code(), Code::kDataCorrupt);
}

TEST(ShardFormat, WritesMetadataThatItReads) {
  ShardMetadata metadata{"a|b\nc", 4, 1234};
  auto again = parse_shard_metadata(format_shard_metadata(metadata), "m");
  ASSERT_TRUE(again);
  EXPECT_EQ(again->tokenizer, "a|b c");
  EXPECT_EQ(again->token_size, 4u);
  EXPECT_EQ(again->tokens, 1234u);
  EXPECT_EQ(format_shard_metadata({"", 2, 7}), "Unknown Tokenizer|2|2\n7\n7.00 T");
}

TEST(ShardFormat, CountsForPeople) {
  for (auto [tokens, text] : std::initializer_list<std::pair<uint64_t, const char*>>{
           {0, "0.00 T"}, {7, "7.00 T"}, {65, "65.0 T"}, {999, "999 T"}, {1000, "1.00 kT"}, {9994, "9.99 kT"}, {9996, "10.0 kT"},
           {99'960, "100 kT"}, {999'600, "1.00 MT"}, {4'123'456, "4.12 MT"}, {123'000'000, "123 MT"}, {5'000'000'000, "5.00 GT"},
           {1'500'000'000'000, "1.50 TT"}}) {
    EXPECT_EQ(human_token_count(tokens), text) << tokens;
  }
}

TEST(ShardFormat, Names) {
  EXPECT_EQ(shard_file_name(7, false), "00007_unshuffled.ds");
  EXPECT_EQ(shard_file_name(123456, true), "123456_00000_doc_shuffled.ds");
}

}  // namespace
}  // namespace cairn::dataset
