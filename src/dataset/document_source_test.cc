#include "dataset/document_source.h"

#include <unistd.h>

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "dataset/parquet_fixture.h"
#include "dataset/shard_fixture.h"
#include "testing/temporary_folder.h"

namespace cairn::dataset {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using test::write_file;

Result<std::vector<std::string>> read_all(DocumentSourceOptions options, uint64_t* read_bytes = nullptr) {
  std::string key = options.text_key;
  CAIRN_TRY(std::unique_ptr<DocumentSource> source, DocumentSource::open(std::move(options)));
  std::vector<std::string> texts;
  DocumentBlock block;
  uint64_t bytes = 0;
  while (true) {
    CAIRN_TRY(bool more, source->next(block));
    if (!more) break;
    bytes += block.read_bytes;
    CAIRN_CHECK_OK(documents_of(block, key, [&](std::string_view text) -> Status {
      texts.emplace_back(text);
      return ok();
    }));
  }
  EXPECT_EQ(bytes, source->total_bytes());
  if (read_bytes != nullptr) *read_bytes = bytes;
  return texts;
}

Result<std::vector<std::string>> read_all(const std::vector<std::string>& inputs) {
  DocumentSourceOptions options;
  options.inputs = inputs;
  return read_all(std::move(options));
}

TEST(DocumentSource, WalksInputsAsGivenAndFoldersInOrder) {
  testing::TemporaryFolder folder;
  write_file(folder / "in/b/2.txt", "b2");
  write_file(folder / "in/b/1.md", "b1");
  write_file(folder / "in/b.txt", "b.txt");
  write_file(folder / "in/a.jsonl", "{\"text\":\"a1\"}\n{\"text\":\"a2\"}");
  write_file(folder / "in/c.csv", "passed over");
  write_file(folder / "in/.hidden.txt", "passed over");
  write_file(folder / "in/empty.txt", "");
  write_file(folder / "named.log", "text by its name");
  auto texts = read_all({folder / "named.log", folder / "in/"});
  ASSERT_TRUE(texts) << texts.error().to_string();
  EXPECT_THAT(*texts, ElementsAre("text by its name", "a1", "a2", "b.txt", "b1", "b2"));
  DocumentSourceOptions options;
  options.inputs = {folder / "in"};
  auto source = DocumentSource::open(options);
  EXPECT_EQ((*source)->file_count(), 5u);
  EXPECT_EQ((*source)->passed_over().text(), "3 inputs were passed over (1 empty, 2 no .txt, .text, .md, .jsonl, .ndjson, .json or .parquet file): " +
                                                 (folder / "in/.hidden.txt") + ", " + (folder / "in/c.csv") + ", " + (folder / "in/empty.txt"));
}

TEST(DocumentSource, NamesTheFirstInputsThatArePassedOver) {
  testing::TemporaryFolder folder;
  write_file(folder / "a.txt", "a");
  DocumentSourceOptions options;
  options.inputs = {folder.path()};
  EXPECT_EQ((*DocumentSource::open(options))->passed_over().text(), "");
  for (char c = 'b'; c <= 'h'; ++c) write_file(folder / (std::string(1, c) + ".md"), "");
  std::string text = (*DocumentSource::open(options))->passed_over().text();
  EXPECT_THAT(text, HasSubstr("7 inputs were passed over (7 empty): "));
  EXPECT_THAT(text, HasSubstr("f.md, …"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("g.md")));
}

TEST(DocumentSource, ReadsLinesAcrossBlocks) {
  uint64_t seed = 3;
  SCOPED_TRACE(seed);
  SeededRandom random(seed);
  for (bool last_line_end : {true, false}) {
    testing::TemporaryFolder folder;
    std::string lines;
    std::vector<std::string> expected;
    for (int i = 0; i < 2000; ++i) {
      std::string text(random.below(i == 700 ? 9'000'000 : 6'000), static_cast<char>('a' + i % 26));
      text += "\xc3\xa9\xf0\x9f\x98\x80" + std::to_string(i);
      lines += (i % 3 == 0 ? "{\"id\":1,\"text\":\"" : " {\"text\" : \"") + text + "\\n\\u00e9\\\"\"}";
      lines += i % 5 == 0 ? "\r\n\n" : "\n";
      expected.push_back(text + "\n\xc3\xa9\"");
    }
    if (!last_line_end) lines.pop_back();
    write_file(folder / "x.jsonl", lines);
    auto texts = read_all({folder / "x.jsonl"});
    ASSERT_TRUE(texts) << texts.error().to_string();
    ASSERT_EQ(texts->size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_TRUE((*texts)[i] == expected[i]) << i;
  }
}

TEST(DocumentSource, PassesOverEmptyTextsAndRepairsBytes) {
  testing::TemporaryFolder folder;
  write_file(folder / "x.jsonl", "{\"text\":\"\"}\n{\"text\":null}\n\n  \n{\"text\":\"a\xff\x62\"}\n{\"text\":\"\\ud83d\\ude00\"}");
  auto texts = read_all({folder / "x.jsonl"});
  ASSERT_TRUE(texts) << texts.error().to_string();
  EXPECT_THAT(*texts, ElementsAre("a\xef\xbf\xbd" "b", "\xf0\x9f\x98\x80"));
}

// Editors of Windows write one.
TEST(DocumentSource, AByteOrderMarkIsNoText) {
  testing::TemporaryFolder folder;
  const std::string mark = "\xef\xbb\xbf";
  write_file(folder / "in/a.txt", mark + "text " + mark);
  write_file(folder / "in/b.jsonl", mark + "{\"text\":\"one\"}\n{\"text\":\"two\"}");
  write_file(folder / "in/c.jsonl", mark + "{\"text\":\"" + std::string(9'000'000, 'x') + "\"}\n{\"text\":\"three\"}\n");
  write_file(folder / "in/d.jsonl", mark);
  write_file(folder / "in/e.txt", mark);
  auto texts = read_all({folder / "in"});
  ASSERT_TRUE(texts) << texts.error().to_string();
  EXPECT_THAT(*texts, ElementsAre("text " + mark, "one", "two", std::string(9'000'000, 'x'), "three"));
}

TEST(DocumentSource, NamesFileAndLineOfWhatIsNoDocument) {
  testing::TemporaryFolder folder;
  auto refused = [&](const std::string& line, const char* why) {
    std::string filler;
    for (int i = 0; i < 5'000; ++i) filler += "{\"text\":\"" + std::string(1'000, 'x') + "\"}\n";
    write_file(folder / "x.jsonl", filler + line + "\n");
    auto texts = read_all({folder / "x.jsonl"});
    ASSERT_FALSE(texts) << line;
    EXPECT_EQ(texts.error().code(), Code::kDataInvalid);
    EXPECT_THAT(texts.error().message(), HasSubstr("x.jsonl: line 5001: "));
    EXPECT_THAT(texts.error().message(), HasSubstr(why));
  };
  refused("{\"texts\":\"a\"}", "no key \"text\"");
  refused("{\"text\":1}", "\"text\" is no string");
  refused("[1]", "no JSON object");
  refused("{\"text\":\"a\"", "");
  refused("{\"text\":\"a\"} x", "");
  refused("{\"text\":\"\\ud83d\"}", "");
}

TEST(DocumentSource, ReadsParquetByRow) {
  DocumentSourceOptions options;
  options.inputs = {CAIRN_SOURCE_DIR "/tests/golden/parquet/texts_snappy_dictionary.parquet"};
  options.text_key = "nullable";
  auto texts = read_all(options);
  ASSERT_TRUE(texts) << texts.error().to_string();
  EXPECT_GT(texts->size(), 30u);
  EXPECT_LT(texts->size(), 60u);  // nulls are passed over
  options.text_key = "body";
  texts = read_all(options);
  ASSERT_FALSE(texts);
  EXPECT_THAT(texts.error().message(), HasSubstr("no column body; it has id, text, nullable"));
}

// Rows without text have no bytes that could fill a block.
TEST(DocumentSource, BlocksOfNullsEndToo) {
  testing::TemporaryFolder folder;
  constexpr int64_t kRows = 1'000'000;
  write_file(folder / "x.parquet", test::parquet_file({{"text"}}, 1, test::page_of_nulls(kRows), kRows));
  DocumentSourceOptions options;
  options.inputs = {folder / "x.parquet"};
  auto source = DocumentSource::open(options);
  ASSERT_TRUE(source) << source.error().to_string();
  size_t rows = 0, longest = 0;
  uint64_t read_bytes = 0;
  DocumentBlock block;
  while (true) {
    auto more = (*source)->next(block);
    ASSERT_TRUE(more) << more.error().to_string();
    if (!*more) break;
    EXPECT_EQ(block.first, rows + 1);
    rows += block.text_ends.size();
    longest = std::max(longest, block.text_ends.size());
    read_bytes += block.read_bytes;
  }
  EXPECT_EQ(rows, static_cast<size_t>(kRows));
  EXPECT_LT(longest, 200'000u);
  EXPECT_EQ(read_bytes, (*source)->total_bytes());
}

TEST(DocumentSource, RefusesInputsThatAreNone) {
  testing::TemporaryFolder folder;
  EXPECT_EQ(read_all({folder / "none"}).error().code(), Code::kDataMissingOnVolume);
  EXPECT_EQ(read_all({folder.path()}).error().code(), Code::kDataInvalid);
  write_file(folder / "a.txt", "a");
  ASSERT_EQ(symlink("a.txt", (folder / "b.txt").c_str()), 0);
  auto texts = read_all({folder.path()});
  ASSERT_FALSE(texts);
  EXPECT_EQ(texts.error().code(), Code::kDataInvalid);
  EXPECT_THAT(texts.error().message(), HasSubstr("b.txt is a link"));
}

TEST(DocumentSource, RefusesADocumentThatIsTooLong) {
  testing::TemporaryFolder folder;
  for (const char* name : {"x.txt", "x.jsonl"}) {
    write_file(folder / name, "{");
    ASSERT_EQ(truncate((folder / name).c_str(), kDocumentBytesMax + 5'000'000), 0);
    auto texts = read_all({folder / name});
    ASSERT_FALSE(texts) << name;
    EXPECT_EQ(texts.error().code(), Code::kLimitExceeded);
    EXPECT_THAT(texts.error().message(), HasSubstr("256 MiB"));
  }
}

}  // namespace
}  // namespace cairn::dataset
