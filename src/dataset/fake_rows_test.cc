#include "dataset/fake_rows.h"

#include <numeric>

#include <gtest/gtest.h>

namespace cairn::dataset {
namespace {

FakeRowsOptions options_of(bool variable, bool random) {
  FakeRowsOptions options;
  options.seq_len = 8;
  options.micro_batch_size = 3;
  options.vocab_size = 5;
  options.variable_length = variable;
  options.random_ids = random;
  options.seed = 7;
  return options;
}

TEST(FakeRows, FixedAndIncreasing) {
  auto rows = make_fake_rows(options_of(false, false));
  ASSERT_TRUE(rows);
  for (int32_t first : {0, 3, 6}) {
    auto row = (*rows)->next();
    ASSERT_TRUE(row);
    EXPECT_EQ(row->sequence_lengths, (std::vector<int32_t>{8, 8, 8}));
    ASSERT_EQ(row->input_ids.size(), 24u);
    for (int32_t sample = 0; sample < 3; ++sample) EXPECT_EQ(row->input_ids[static_cast<size_t>(sample) * 8 + 7], (first + sample) % 5);
    EXPECT_EQ(std::accumulate(row->loss_mask.begin(), row->loss_mask.end(), 0), 24);
  }
  EXPECT_EQ((*rows)->progress().samples, 9);
  EXPECT_EQ((*rows)->progress().epoch, 0);
}

TEST(FakeRows, VariableAndRandomGoOnWhereTheyStood) {
  auto rows = make_fake_rows(options_of(true, true));
  auto other = make_fake_rows(options_of(true, true));
  ASSERT_TRUE(rows && other);
  bool padded = false;
  for (int i = 0; i < 50; ++i) {
    std::string cursor = (*rows)->cursor();
    auto row = (*rows)->next();
    ASSERT_TRUE(row);
    EXPECT_EQ(row->input_ids.size(), 24u);
    EXPECT_EQ(std::accumulate(row->sequence_lengths.begin(), row->sequence_lengths.end(), 0), 24);
    for (int32_t id : row->input_ids) EXPECT_TRUE(id >= 0 && id < 5);
    padded = padded || row->loss_mask.back() == 0;
    ASSERT_TRUE((*other)->restore(cursor));
    auto again = (*other)->next();
    ASSERT_TRUE(again);
    EXPECT_EQ(again->input_ids, row->input_ids);
    EXPECT_EQ(again->target_ids, row->target_ids);
    EXPECT_EQ(again->sequence_lengths, row->sequence_lengths);
  }
  EXPECT_TRUE(padded);
  ASSERT_TRUE((*other)->restore(R"({"version": 1, "kind": "fake", "fingerprint": ")" +
                                (*rows)->cursor().substr((*rows)->cursor().find("print\": \"") + 9, 16) +
                                R"(", "rows": 0, "sample": 0, "samples": 0})"));
  ASSERT_TRUE((*other)->skip(50));
  EXPECT_EQ((*other)->cursor(), (*rows)->cursor());
}

TEST(FakeRows, AnEpochWhereAskedFor) {
  FakeRowsOptions options = options_of(true, true);
  options.rows_per_epoch = 2;
  auto rows = make_fake_rows(options);
  ASSERT_TRUE(rows);
  auto first = (*rows)->next();
  EXPECT_EQ((*rows)->progress().epoch, 0);
  ASSERT_TRUE((*rows)->skip(1));
  EXPECT_EQ((*rows)->progress().epoch, 1);
  auto again = (*rows)->next();
  ASSERT_TRUE(first && again);
  EXPECT_EQ(first->input_ids, again->input_ids);
}

TEST(FakeRows, RefusesOtherCursorsAndBadNumbers) {
  auto rows = make_fake_rows(options_of(true, true));
  auto other = make_fake_rows(options_of(false, true));
  ASSERT_TRUE(rows && other);
  auto status = (*rows)->restore((*other)->cursor());
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::kCheckpointMismatch);
  EXPECT_FALSE((*rows)->restore(""));
  EXPECT_FALSE((*rows)->restore("{}"));
  EXPECT_FALSE((*rows)->restore("[1]"));
  FakeRowsOptions options = options_of(false, false);
  options.vocab_size = 0;
  EXPECT_FALSE(make_fake_rows(options));
  options = options_of(false, false);
  options.micro_batch_size = int64_t{1} << 62;
  EXPECT_FALSE(make_fake_rows(options));
}

}  // namespace
}  // namespace cairn::dataset
