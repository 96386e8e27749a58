#include "dataset/pretrain_rows.h"

#include <algorithm>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "dataset/shard_fixture.h"
#include "dataset/shard_format.h"
#include "testing/temporary_folder.h"

namespace cairn::dataset {
namespace {

using ::testing::HasSubstr;
using test::Ids;
using test::write_file;
using test::write_shard;

// A pool in which the id at position p is p: then a target's id tells which one it is.
void write_numbered(const testing::TemporaryFolder& folder, uint32_t tokens, SeededRandom& random) {
  uint32_t next = 0;
  for (uint32_t rank = 0; next < tokens; ++rank) {
    std::vector<Ids> documents(random.below(4));
    for (Ids& document : documents) {
      for (uint64_t n = random.below(60); n > 0 && next < tokens; --n) document.push_back(next++);
    }
    write_shard(folder / shard_file_name(rank, false), random.below(2) == 0 ? 2 : 4, documents);
  }
}

PretrainRowsOptions options_of(const testing::TemporaryFolder& folder, int64_t seq_len, int64_t micro_batch_size) {
  PretrainRowsOptions options;
  options.paths = {folder.path()};
  options.seq_len = seq_len;
  options.micro_batch_size = micro_batch_size;
  options.vocab_size = 100'000;
  return options;
}

std::unique_ptr<PretrainRows> open_rows(const PretrainRowsOptions& options) {
  auto rows = PretrainRows::open(options);
  EXPECT_TRUE(rows) << rows.error().to_string();
  return rows ? std::move(*rows) : nullptr;
}

Row next_row(RowSource& rows) {
  auto row = rows.next();
  EXPECT_TRUE(row) << row.error().to_string();
  return row.value_or(Row());
}

bool equal(const Row& a, const Row& b) {
  return a.input_ids == b.input_ids && a.target_ids == b.target_ids && a.loss_mask == b.loss_mask &&
         a.sequence_lengths == b.sequence_lengths;
}

void expect_shape(const Row& row, size_t windows, int32_t seq_len) {
  ASSERT_EQ(row.sequence_lengths, std::vector<int32_t>(windows, seq_len));
  ASSERT_EQ(row.input_ids.size(), windows * static_cast<size_t>(seq_len));
  ASSERT_EQ(row.target_ids.size(), row.input_ids.size());
  ASSERT_EQ(row.loss_mask.size(), row.input_ids.size());
  for (size_t i = 0; i < row.input_ids.size(); ++i) ASSERT_EQ(row.target_ids[i], row.input_ids[i] + 1);
}

TEST(PretrainRows, EveryTokenButTheFirstIsATargetOnceAnEpoch) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    SeededRandom random(seed);
    testing::TemporaryFolder folder;
    auto tokens = static_cast<uint32_t>(30 + random.below(400));
    write_numbered(folder, tokens, random);
    auto seq_len = static_cast<int64_t>(1 + random.below(29));
    auto options = options_of(folder, seq_len, 1);
    options.shuffle = random.below(4) != 0;
    options.seed = seed;
    auto rows = open_rows(options);
    ASSERT_NE(rows, nullptr);
    ASSERT_EQ(rows->tokens(), tokens);
    std::vector<std::vector<int32_t>> firsts;
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      std::map<int32_t, int> times;
      firsts.emplace_back();
      for (int64_t i = 0; i < rows->rows_per_epoch(); ++i) {
        ASSERT_EQ(rows->progress().epoch, epoch);
        Row row = next_row(*rows);
        expect_shape(row, 1, static_cast<int32_t>(seq_len));
        firsts.back().push_back(row.input_ids[0]);
        for (size_t k = 0; k < row.target_ids.size(); ++k) times[row.target_ids[k]] += row.loss_mask[k];
      }
      ASSERT_EQ(times.size(), tokens - 1);
      for (const auto& [id, count] : times) ASSERT_EQ(count, 1) << id;
      ASSERT_EQ(times.begin()->first, 1);
    }
    if (!options.shuffle) {
      EXPECT_TRUE(std::is_sorted(firsts[0].begin(), firsts[0].end()));
      EXPECT_EQ(firsts[0], firsts[1]);
    } else if (firsts[0].size() > 8) {
      EXPECT_NE(firsts[0], firsts[1]);
      EXPECT_NE(firsts[1], firsts[2]);
    }
  }
}

TEST(PretrainRows, RowsOfSeveralWindowsRunOnThroughEpochs) {
  SeededRandom random(5);
  testing::TemporaryFolder folder;
  write_numbered(folder, 101, random);
  auto single = open_rows(options_of(folder, 10, 1));
  auto triple = open_rows(options_of(folder, 10, 3));
  ASSERT_EQ(triple->windows_per_epoch(), 10u);
  EXPECT_EQ(triple->rows_per_epoch(), 3);
  for (int i = 0; i < 30; ++i) {
    Row row = next_row(*triple);
    expect_shape(row, 3, 10);
    Row joined;
    for (int k = 0; k < 3; ++k) {
      Row one = next_row(*single);
      joined.input_ids.insert(joined.input_ids.end(), one.input_ids.begin(), one.input_ids.end());
    }
    EXPECT_EQ(row.input_ids, joined.input_ids);
  }
  EXPECT_EQ(triple->progress().samples, 90);
  EXPECT_EQ(triple->progress().epoch, 9);
}

TEST(PretrainRows, SkipIsAsManyCallsOfNext) {
  for (bool validation : {false, true}) {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      SCOPED_TRACE(seed);
      SeededRandom random(seed);
      testing::TemporaryFolder folder;
      write_numbered(folder, static_cast<uint32_t>(50 + random.below(300)), random);
      auto options = options_of(folder, static_cast<int64_t>(1 + random.below(20)), static_cast<int64_t>(1 + random.below(5)));
      options.validation = validation;
      auto walked = open_rows(options), skipped = open_rows(options);
      for (int i = 0; i < 10; ++i) {
        auto count = static_cast<int64_t>(random.below(40));
        for (int64_t k = 0; k < count; ++k) next_row(*walked);
        ASSERT_TRUE(skipped->skip(count));
        ASSERT_EQ(walked->cursor(), skipped->cursor());
        ASSERT_TRUE(equal(next_row(*walked), next_row(*skipped)));
      }
    }
  }
}

TEST(PretrainRows, GoesOnWhereTheCursorStood) {
  SeededRandom random(8);
  testing::TemporaryFolder folder;
  write_numbered(folder, 500, random);
  auto options = options_of(folder, 16, 2);
  auto rows = open_rows(options);
  for (int i = 0; i < 70; ++i) {
    std::string cursor = rows->cursor();
    auto resumed = open_rows(options);
    ASSERT_TRUE(resumed->restore(cursor));
    EXPECT_EQ(resumed->cursor(), cursor);
    EXPECT_TRUE(equal(next_row(*rows), next_row(*resumed)));
  }
  auto far = open_rows(options);
  ASSERT_TRUE(far->skip(1'000'000'000'000));
  EXPECT_TRUE(far->next());
  EXPECT_EQ(far->skip(INT64_MAX).error().code(), Code::kLimitExceeded);
}

TEST(PretrainRows, RefusesACursorOfOtherDataOrSettings) {
  SeededRandom random(9);
  testing::TemporaryFolder folder, other;
  write_numbered(folder, 300, random);
  write_numbered(other, 301, random);
  auto options = options_of(folder, 16, 1);
  auto rows = open_rows(options);
  std::string cursor = rows->cursor();
  auto refused = [&](const PretrainRowsOptions& changed, std::initializer_list<std::string> parts) {
    Status restored = open_rows(changed)->restore(cursor);
    ASSERT_FALSE(restored);
    EXPECT_EQ(restored.error().code(), Code::kCheckpointMismatch);
    for (const std::string& part : parts) EXPECT_THAT(restored.error().message(), HasSubstr(part));
  };
  Status deep = rows->restore("{\"kind\":" + std::string(200'000, '[') + std::string(200'000, ']') + "}");
  ASSERT_FALSE(deep);
  EXPECT_EQ(deep.error().code(), Code::kCheckpointMismatch);
  auto changed = options_of(other, 16, 1);
  refused(changed, {nlohmann::json::parse(cursor)["data"].get<std::string>(),
                    nlohmann::json::parse(open_rows(changed)->cursor())["data"].get<std::string>()});
  changed = options_of(folder, 8, 1);
  refused(changed, {"data.seq_len 16", "has 8"});
  changed = options_of(folder, 16, 1);
  changed.seed = 4;
  refused(changed, {"data.seed 0", "has 4"});
  changed.seed = 0;
  changed.shuffle = false;
  refused(changed, {"data.shuffle true", "has false"});
  for (const char* bad : {"", "{", "[]", "{}", "null", R"({"v":1,"kind":"sft"})",
                          R"({"v":1,"kind":"pretrain","windows":-1,"data":"x","tokens":1,"seq_len":1,"shuffle":true,"seed":0})"}) {
    EXPECT_EQ(rows->restore(bad).error().code(), Code::kCheckpointMismatch) << bad;
  }
  std::string newer = cursor;
  newer.replace(newer.find("\"v\":1"), 5, "\"v\":9");
  EXPECT_EQ(rows->restore(newer).error().code(), Code::kFormatUnsupported);
  EXPECT_EQ(rows->cursor(), cursor);
}

TEST(PretrainRows, TheOrderStaysAsItIs) {
  testing::TemporaryFolder folder;
  Ids ids(81);
  for (uint32_t i = 0; i < ids.size(); ++i) ids[i] = i;
  write_shard(folder / "x.ds", 2, {ids});
  auto options = options_of(folder, 8, 1);
  options.seed = 7;
  auto rows = open_rows(options);
  ASSERT_EQ(rows->windows_per_epoch(), 10u);
  // The line "10 7 0" of permutation.txt.
  for (int32_t window : {2, 8, 4, 6, 3, 1, 5, 0}) EXPECT_EQ(next_row(*rows).input_ids[0], window * 8);
}

TEST(PretrainRows, ValidationIsTheFirstWindowsEachTime) {
  SeededRandom random(6);
  testing::TemporaryFolder folder;
  write_numbered(folder, 120, random);
  auto options = options_of(folder, 10, 3);
  options.validation = true;
  options.num_samples = 7;
  auto rows = open_rows(options);
  EXPECT_EQ(rows->rows_per_epoch(), 3);
  for (int round = 0; round < 2; ++round) {
    std::vector<int32_t> firsts;
    for (size_t windows : {3u, 3u, 1u}) {
      Row row = next_row(*rows);
      expect_shape(row, windows, 10);
      for (size_t i = 0; i < windows; ++i) firsts.push_back(row.input_ids[i * 10]);
    }
    EXPECT_EQ(firsts, (std::vector<int32_t>{0, 10, 20, 30, 40, 50, 60}));
  }
  options.num_samples = 0;
  EXPECT_EQ(open_rows(options)->windows_per_epoch(), 12u);
}

TEST(PretrainRows, LossFilesMaskTargets) {
  testing::TemporaryFolder folder;
  write_shard(folder / "a.ds", 2, {{10, 11, 12}});
  write_file(folder / "a.ds.loss", std::string("\1\0\1", 3));
  write_shard(folder / "b.ds", 2, {{13, 14}});
  auto options = options_of(folder, 4, 1);
  options.shuffle = false;
  Row row = next_row(*open_rows(options));
  EXPECT_EQ(row.target_ids, (std::vector<int32_t>{11, 12, 13, 14}));
  EXPECT_EQ(row.loss_mask, (std::vector<uint8_t>{0, 1, 1, 1}));
}

TEST(PretrainRows, RefusesIdsBeyondTheVocabulary) {
  testing::TemporaryFolder folder;
  write_shard(folder / "a.ds", 2, {{1, 2, 3}});
  write_shard(folder / "b.ds", 4, {{4, 70'000, 5}});
  auto options = options_of(folder, 5, 1);
  options.vocab_size = 70'000;
  auto row = open_rows(options)->next();
  ASSERT_FALSE(row);
  EXPECT_EQ(row.error().code(), Code::kDataInvalid);
  EXPECT_THAT(row.error().message(), HasSubstr("b.ds holds id 70000 at token 1"));
  EXPECT_THAT(row.error().message(), HasSubstr("has 70000 entries"));
  options.vocab_size = 70'001;
  EXPECT_TRUE(open_rows(options)->next());
}

TEST(PretrainRows, RefusesLessThanOneWindow) {
  testing::TemporaryFolder folder;
  write_shard(folder / "a.ds", 2, {{1, 2, 3}, {4}});
  EXPECT_EQ(open_rows(options_of(folder, 3, 1))->windows_per_epoch(), 1u);
  auto rows = PretrainRows::open(options_of(folder, 4, 1));
  ASSERT_FALSE(rows);
  EXPECT_EQ(rows.error().code(), Code::kDataInvalid);
  EXPECT_THAT(rows.error().message(), HasSubstr("hold 4 tokens"));
  EXPECT_THAT(rows.error().message(), HasSubstr("needs 5"));
  testing::TemporaryFolder empty;
  write_shard(empty / "a.ds", 2, {});
  EXPECT_EQ(PretrainRows::open(options_of(empty, 1, 1)).error().code(), Code::kDataInvalid);
}

TEST(PretrainRows, ANewlineAfterEachDocumentIsNoSeparator) {
  testing::TemporaryFolder folder;
  write_shard(folder / "a.ds", 2, {{1, 2, 8}, {3, 8}, {8}});
  auto options = options_of(folder, 3, 1);
  options.separator_id = 7;
  options.is_special = [](uint32_t id) { return id == 7; };
  auto rows = open_rows(options);
  ASSERT_EQ(rows->warnings().size(), 1u);
  EXPECT_THAT(rows->warnings()[0], HasSubstr("No separator (id 7)"));
}

TEST(PretrainRows, WarnsOfMissingSeparatorsAndMixedTokenizers) {
  testing::TemporaryFolder folder;
  write_shard(folder / "a.ds", 2, {{1, 2, 3, 9}}, "one");
  auto options = options_of(folder, 3, 1);
  EXPECT_TRUE(open_rows(options)->warnings().empty());
  options.separator_id = 9;
  EXPECT_TRUE(open_rows(options)->warnings().empty());
  options.separator_id = 7;
  auto rows = open_rows(options);
  ASSERT_EQ(rows->warnings().size(), 1u);
  EXPECT_THAT(rows->warnings()[0], HasSubstr("No separator (id 7) is among the first 4 tokens"));
  // Documents that all end in 8 have a separator, if not the expected one.
  testing::TemporaryFolder other;
  write_shard(other / "a.ds", 2, {{1, 2, 8}, {3, 8}, {}, {8}});
  options.paths = {other.path()};
  EXPECT_TRUE(open_rows(options)->warnings().empty());
  options.is_special = [](uint32_t id) { return id == 8; };
  EXPECT_TRUE(open_rows(options)->warnings().empty());
  write_shard(other / "0.ds", 2, {{1, 2, 8}, {3, 4}});
  EXPECT_EQ(open_rows(options)->warnings().size(), 1u);
  options.paths = {folder.path()};
  write_shard(folder / "b.ds", 2, {{7}}, "two");
  rows = open_rows(options);
  ASSERT_EQ(rows->warnings().size(), 1u);
  EXPECT_THAT(rows->warnings()[0], HasSubstr("different tokenizers"));
}

}  // namespace
}  // namespace cairn::dataset
