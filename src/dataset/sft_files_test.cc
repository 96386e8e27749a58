#include "dataset/sft_files.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dataset/json_value.h"
#include "dataset/line_index.h"
#include "dataset/parquet_fixture.h"
#include "dataset/sft_file_list.h"
#include "testing/temporary_folder.h"

namespace cairn::dataset {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void write(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

std::vector<std::string> rows_of(SftFiles& files) {
  std::vector<std::string> rows;
  for (uint64_t i = 0; i < files.size(); ++i) {
    std::string json;
    EXPECT_TRUE(files.read(i, json));
    rows.push_back(json);
  }
  return rows;
}

Error error_of(const std::string& path) {
  auto files = SftFiles::open(path, "");
  EXPECT_FALSE(files) << path;
  return files ? Error(Code::kInternal, "no error") : files.error();
}

TEST(SftFiles, FindsTheLinesOfAFile) {
  testing::TemporaryFolder folder;
  write(folder / "a.jsonl", "{\"a\":1}\n\n  \t\r\n {\"a\":2}\r\n{\"a\":3}");
  auto files = SftFiles::open(folder / "a.jsonl", "");
  ASSERT_TRUE(files) << files.error().message();
  EXPECT_THAT(rows_of(**files), ElementsAre("{\"a\":1}", "{\"a\":2}\r", "{\"a\":3}"));
  EXPECT_EQ((*files)->where(0), "a.jsonl, line 1");
  EXPECT_EQ((*files)->where(1), "a.jsonl, line 4");
  EXPECT_EQ((*files)->where(2), "a.jsonl, line 5");
  EXPECT_FALSE((*files)->from_columns(0));
}

TEST(SftFiles, AByteOrderMarkIsNoPartOfARow) {
  testing::TemporaryFolder folder;
  const std::string mark = "\xef\xbb\xbf";
  write(folder / "a.jsonl", mark + "{\"a\":1}\n{\"a\":2}\n");
  auto files = SftFiles::open(folder / "a.jsonl", "");
  ASSERT_TRUE(files) << files.error().message();
  EXPECT_THAT(rows_of(**files), ElementsAre("{\"a\":1}", "{\"a\":2}"));
  EXPECT_EQ((*files)->where(1), "a.jsonl, line 2");
  write(folder / "list.jsonl", mark + "[{\"a\":1}]");
  EXPECT_THAT(error_of(folder / "list.jsonl").message(), HasSubstr("is one JSON list"));
  write(folder / "none.jsonl", mark);
  EXPECT_THAT(error_of(folder / "none.jsonl").message(), HasSubstr("holds no row"));
}

TEST(SftFiles, BoundsTheRowsOfADataSet) {
  testing::TemporaryFolder folder;
  write(folder / "d/a.jsonl", "{}\n{}\n\n{}\n");
  write(folder / "d/b.jsonl", "{}\n{}\n");
  EXPECT_EQ((*SftFiles::open(folder / "d", "", 5))->size(), 5u);
  auto refused = SftFiles::open(folder / "d", "", 4);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kLimitExceeded);
  EXPECT_THAT(refused.error().message(), HasSubstr("b.jsonl: the data set has more than 4 rows"));
  // A hundred bytes of Parquet: refused before the first of its rows is written to scratch, here to a folder that is not there.
  constexpr int64_t kRows = 600'000'000;
  write(folder / "x.parquet", test::parquet_file({{"messages"}}, 1, test::page_of_nulls(kRows), kRows));
  refused = SftFiles::open(folder / "x.parquet", folder / "absent");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kLimitExceeded);
  EXPECT_THAT(refused.error().message(), HasSubstr("x.parquet: the data set has more than 500000000 rows"));
}

// Lines longer and shorter than the blocks the file is read in.
TEST(SftFiles, LinesAcrossBlocks) {
  testing::TemporaryFolder folder;
  std::string text;
  std::vector<std::string> lines;
  for (size_t i = 0; i < 300; ++i) {
    lines.push_back("{\"n\":\"" + std::string(i * i % 60'000, 'x') + "\"}");
    text += lines.back() + "\n";
    if (i % 7 == 0) text += "\n";
  }
  lines.push_back("{\"n\":\"" + std::string(3'000'000, 'y') + "\"}");
  text += lines.back();
  write(folder / "a.jsonl", text);
  auto files = SftFiles::open(folder / "a.jsonl", "");
  ASSERT_TRUE(files) << files.error().message();
  EXPECT_EQ(rows_of(**files), lines);
}

TEST(SftFiles, WalksAFolderInOrderAndPicksTheTrainingSplit) {
  testing::TemporaryFolder folder;
  write(folder / "b.jsonl", "1\n");
  write(folder / "a/z.ndjson", "2\n3\n");
  write(folder / "a.json", "4\n");
  write(folder / "README.md", "nothing");
  write(folder / ".hidden/x.jsonl", "nothing");
  auto files = SftFiles::open(folder.path(), "");
  ASSERT_TRUE(files) << files.error().message();
  EXPECT_THAT(rows_of(**files), ElementsAre("4", "2", "3", "1"));
  EXPECT_EQ((*files)->where(2), "a/z.ndjson, line 2");
  EXPECT_EQ((*files)->file_count(), 3u);

  write(folder / "test.jsonl", "5\n");
  files = SftFiles::open(folder.path(), "");
  ASSERT_TRUE(files);
  EXPECT_EQ((*files)->size(), 4u);
  EXPECT_THAT((*files)->left_aside(), ElementsAre("test.jsonl"));

  write(folder / "data/train-00000-of-00001.jsonl", "6\n");
  files = SftFiles::open(folder.path(), "");
  ASSERT_TRUE(files);
  EXPECT_THAT(rows_of(**files), ElementsAre("6"));
  EXPECT_THAT((*files)->left_aside(), ElementsAre("a.json", "a/z.ndjson", "b.jsonl", "test.jsonl"));
}

TEST(SftFiles, OnlyHeldOutFilesAreTakenAsTheyAre) {
  testing::TemporaryFolder folder;
  write(folder / "validation.jsonl", "1\n");
  auto files = SftFiles::open(folder.path(), "");
  ASSERT_TRUE(files);
  EXPECT_EQ((*files)->size(), 1u);
}

TEST(SftFiles, SplitsAreWordsOfThePath) {
  EXPECT_EQ(split_of("train.jsonl"), DataSplit::kTrain);
  EXPECT_EQ(split_of("data/Train-00000-of-00001.parquet"), DataSplit::kTrain);
  EXPECT_EQ(split_of("train/test_cases.jsonl"), DataSplit::kTrain);
  EXPECT_EQ(split_of("test_sft-1.jsonl"), DataSplit::kOther);
  EXPECT_EQ(split_of("dev/a.jsonl"), DataSplit::kOther);
  EXPECT_EQ(split_of("latest.jsonl"), DataSplit::kNone);
  EXPECT_EQ(split_of("constraint.jsonl"), DataSplit::kNone);
}

TEST(SftFiles, RefusesWhatCannotBeRead) {
  testing::TemporaryFolder folder;
  EXPECT_EQ(error_of(folder / "absent").code(), Code::kDataMissingOnVolume);
  EXPECT_EQ(error_of(folder / "absent/deeper").code(), Code::kDataMissingOnVolume);
  EXPECT_EQ(error_of(folder.path()).code(), Code::kDataInvalid);
  write(folder / "empty/a.jsonl", "\n \n");
  EXPECT_THAT(error_of(folder / "empty").message(), HasSubstr("holds no row"));
  write(folder / "list/a.json", "\n[\n {\"messages\": \"a\"}\n]");
  Error list = error_of(folder / "list");
  EXPECT_THAT(list.message(), HasSubstr("a.json is one JSON list"));
  EXPECT_THAT(list.hint(), HasSubstr("jq"));
  write(folder / "long/a.jsonl", "1\n\n" + std::string(kJsonBytesMax + 1, 'x') + "\n");
  Error long_line = error_of(folder / "long");
  EXPECT_EQ(long_line.code(), Code::kLimitExceeded);
  EXPECT_THAT(long_line.message(), HasSubstr("a.jsonl, line 3"));
  std::filesystem::create_directories(folder / "link");
  std::filesystem::create_symlink(folder / "empty/a.jsonl", folder / "link/a.jsonl");
  EXPECT_THAT(error_of(folder / "link").message(), HasSubstr("a link"));
}

TEST(SftFiles, AChangedFileIsNoticed) {
  testing::TemporaryFolder folder;
  write(folder / "a.jsonl", "1\n2\n");
  write(folder / "b.jsonl", "3\n4\n");
  auto files = SftFiles::open(folder.path(), "");
  ASSERT_TRUE(files);
  std::string json;
  ASSERT_TRUE((*files)->read(0, json));
  write(folder / "b.jsonl", "3\n4\n5\n");
  auto status = (*files)->read(3, json);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::kFileChanged);
  EXPECT_THAT(status.error().message(), HasSubstr("b.jsonl"));
}

TEST(SftFiles, TheFingerprintTellsNamesAndSizes) {
  testing::TemporaryFolder folder;
  auto fingerprint = [&](const std::string& path) {
    auto files = SftFiles::open(path, "");
    return files ? (*files)->fingerprint() : files.error().message();
  };
  write(folder / "one/a.jsonl", "1\n2\n");
  write(folder / "two/a.jsonl", "1\n2\n");
  EXPECT_EQ(fingerprint(folder / "one"), fingerprint(folder / "two"));
  write(folder / "two/a.jsonl", "1\n22\n");
  EXPECT_NE(fingerprint(folder / "one"), fingerprint(folder / "two"));
  write(folder / "three/b.jsonl", "1\n2\n");
  EXPECT_NE(fingerprint(folder / "one"), fingerprint(folder / "three"));
}

TEST(SftFiles, ReadsParquetByColumns) {
  const std::string golden = CAIRN_SOURCE_DIR "/tests/golden/parquet/";
  std::ifstream file(golden + "expected.json");
  auto all = parse_json(std::string(std::istreambuf_iterator<char>(file), {}));
  ASSERT_TRUE(all) << all.error().message();
  testing::TemporaryFolder folder;
  write(folder / "a.jsonl", "{}\n");
  for (const char* name : {"chats_snappy", "chats_zstd_v2"}) {
    std::filesystem::copy_file(golden + name + ".parquet", folder / (std::string(name) + ".parquet"));
  }
  auto files = SftFiles::open(folder.path(), "");
  ASSERT_TRUE(files) << files.error().message();
  ASSERT_EQ((*files)->size(), 81u);
  for (uint64_t i = 0; i < 80; ++i) {
    uint64_t row = (i * 37) % 80;  // out of order
    const JsonValue& wanted = all->find(row < 40 ? "chats_snappy" : "chats_zstd_v2")->items[row % 40];
    std::string json;
    ASSERT_TRUE((*files)->read(1 + row, json));
    auto value = parse_json(json);
    ASSERT_TRUE(value) << json;
    EXPECT_EQ(python_json(*value), python_json(wanted));
    EXPECT_TRUE((*files)->from_columns(1 + row));
  }
  EXPECT_EQ((*files)->where(41), "chats_zstd_v2.parquet, row 1");

  EXPECT_THAT(error_of(golden + "texts_none.parquet").message(), HasSubstr("neither a column 'messages'"));
  auto no_scratch = SftFiles::open(golden + "chats_snappy.parquet", folder / "absent");
  ASSERT_FALSE(no_scratch);
  EXPECT_THAT(no_scratch.error().message(), HasSubstr("absent"));
}

TEST(LineIndex, HoldsFarOffsets) {
  LineIndex index;
  std::vector<uint64_t> offsets;
  for (uint64_t i = 0; i < 1000; ++i) offsets.push_back(i * 16'777'216 + i % 3);
  for (uint64_t offset : offsets) ASSERT_TRUE(index.add(offset));
  for (size_t i = 0; i < offsets.size(); ++i) EXPECT_EQ(index.offset(i), offsets[i]);
  EXPECT_FALSE(index.add(uint64_t{1} << 62));
}

}  // namespace
}  // namespace cairn::dataset
