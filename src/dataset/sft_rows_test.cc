// Rows against a plain second implementation of the packing, on random data sets; going on from every cursor; refusals.
#include "dataset/sft_rows.h"

#include <filesystem>
#include <fstream>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "dataset/permutation.h"
#include "dataset/sft_test_support.h"
#include "testing/temporary_folder.h"

namespace cairn::dataset {
namespace {

using ::testing::HasSubstr;

void write(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary | std::ios::trunc) << text; }

Result<std::unique_ptr<SftRows>> open(const SftRowsOptions& options) {
  return SftRows::open(options, std::make_shared<ByteTokenizer>(), std::make_unique<ByteEncoder>());
}

SftRowsOptions options_of(const std::string& path) {
  SftRowsOptions options;
  options.path = path;
  options.renderer.format = ChatFormat::kPrimeQwen3;
  options.seq_len = 80;
  options.micro_batch_size = 2;
  options.seed = 5;
  options.tokenizer_name = "bytes";
  return options;
}

std::string row_text(const std::string& prompt, const std::string& completion) {
  return "{\"prompt\": \"" + prompt + "\", \"completion\": \"" + completion + "\"}";
}

std::vector<std::string> random_rows(SeededRandom& random, size_t count) {
  std::vector<std::string> rows;
  for (size_t i = 0; i < count; ++i) {
    // Some prompts push every trained token out of seq_len, some samples are longer than a row.
    std::string prompt(random.below(10) == 0 ? 100 : random.below(20), static_cast<char>('a' + i % 26));
    std::string completion(random.below(8) == 0 ? 300 : random.below(60), static_cast<char>('A' + i % 26));
    rows.push_back(row_text(prompt, completion));
  }
  return rows;
}

std::string joined(const std::vector<std::string>& rows) {
  return std::accumulate(rows.begin(), rows.end(), std::string(), [](std::string all, const std::string& row) { return all + row + "\n"; });
}

bool same(const Row& a, const Row& b) {
  return a.input_ids == b.input_ids && a.target_ids == b.target_ids && a.loss_mask == b.loss_mask &&
         a.sequence_lengths == b.sequence_lengths;
}

// What docs/formats/sft-data.md says, written plainly: all samples of some epochs in their order, then packed.
struct PlainSample {
  std::vector<int32_t> inputs, targets;
  std::vector<uint8_t> mask;
  uint64_t epoch = 0;
};

std::vector<PlainSample> plain_samples(const std::vector<std::string>& rows, const SftRowsOptions& options, uint64_t epochs) {
  std::vector<PlainSample> samples;
  ByteEncoder encoder;
  for (uint64_t epoch = 0; epoch < epochs; ++epoch) {
    Permutation order(rows.size(), Permutation::key_of(options.seed, epoch));
    for (uint64_t place = 0; place < rows.size(); ++place) {
      bool shuffled = options.shuffle && !options.validation;
      auto conversation = parse_conversation(rows[shuffled ? order.at(place) : place], "x");
      TokenizedText tokens;
      EXPECT_TRUE(tokenize(make_renderer(options.renderer)->render(*conversation), options.loss_mask, encoder, tokens));
      PlainSample sample;
      sample.inputs.assign(tokens.ids.begin(), tokens.ids.end() - 1);
      sample.targets.assign(tokens.ids.begin() + 1, tokens.ids.end());
      sample.mask.assign(tokens.trainable.begin() + 1, tokens.trainable.end());
      sample.epoch = epoch;
      size_t seen = std::min(sample.mask.size(), static_cast<size_t>(options.seq_len));
      if (std::accumulate(sample.mask.begin(), sample.mask.begin() + static_cast<ptrdiff_t>(seen), 0) > 0) {
        samples.push_back(std::move(sample));
      }
    }
  }
  return samples;
}

std::vector<Row> plain_rows(const std::vector<std::string>& texts, const SftRowsOptions& options, uint64_t epochs) {
  size_t length = static_cast<size_t>(options.seq_len * options.micro_batch_size);
  std::vector<Row> rows;
  Row row;
  uint64_t row_epoch = 0;
  auto emit = [&] {
    row.sequence_lengths.back() += static_cast<int32_t>(length) - static_cast<int32_t>(row.input_ids.size());
    row.input_ids.resize(length);
    row.target_ids.resize(length);
    row.loss_mask.resize(length);
    rows.push_back(std::exchange(row, Row()));
  };
  for (const PlainSample& sample : plain_samples(texts, options, epochs)) {
    size_t size = std::min(sample.inputs.size(), length);
    bool breaks = options.validation && sample.epoch != row_epoch;
    if (!row.input_ids.empty() && (row.input_ids.size() + size > length || breaks)) emit();
    row_epoch = sample.epoch;
    auto end = static_cast<ptrdiff_t>(size);
    row.input_ids.insert(row.input_ids.end(), sample.inputs.begin(), sample.inputs.begin() + end);
    row.target_ids.insert(row.target_ids.end(), sample.targets.begin(), sample.targets.begin() + end);
    row.loss_mask.insert(row.loss_mask.end(), sample.mask.begin(), sample.mask.begin() + end);
    row.sequence_lengths.push_back(static_cast<int32_t>(size));
    if (row.input_ids.size() == length) emit();
  }
  return rows;  // without the last one, which the next epoch may still fill
}

TEST(SftRows, EqualAPlainImplementation) {
  uint64_t seed = system_random().next_u64();
  SCOPED_TRACE("seed " + std::to_string(seed));
  SeededRandom random(seed);
  for (int round = 0; round < 12; ++round) {
    testing::TemporaryFolder folder;
    auto texts = random_rows(random, 1 + random.below(40));
    texts.push_back(row_text("p", "c"));  // one that is not skipped
    write(folder / "a.jsonl", joined(texts));
    SftRowsOptions options = options_of(folder / "a.jsonl");
    options.shuffle = round % 3 != 0;
    options.validation = round % 4 == 1;
    options.micro_batch_size = 1 + static_cast<int64_t>(random.below(3));
    options.loss_mask = {false, round % 5 == 2, true, false};
    auto rows = open(options);
    ASSERT_TRUE(rows) << rows.error().message();
    for (const Row& expected : plain_rows(texts, options, 3)) {
      auto row = (*rows)->next();
      ASSERT_TRUE(row) << row.error().message();
      ASSERT_TRUE(same(*row, expected));
    }
  }
}

TEST(SftRows, GoOnFromEveryCursorAndSkip) {
  uint64_t seed = system_random().next_u64();
  SCOPED_TRACE("seed " + std::to_string(seed));
  SeededRandom random(seed);
  testing::TemporaryFolder folder;
  auto texts = random_rows(random, 25);
  texts.push_back(row_text("p", "c"));
  write(folder / "a.jsonl", joined(texts));
  SftRowsOptions options = options_of(folder / "a.jsonl");
  auto rows = open(options);
  ASSERT_TRUE(rows);
  std::vector<std::string> cursors;
  std::vector<Row> expected;
  for (int i = 0; i < 60; ++i) {
    cursors.push_back((*rows)->cursor());
    auto row = (*rows)->next();
    ASSERT_TRUE(row);
    expected.push_back(*std::move(row));
  }
  cursors.push_back((*rows)->cursor());
  EXPECT_GE((*rows)->progress().epoch, 2);
  auto used = open(options);
  ASSERT_TRUE(used);
  for (size_t i = 0; i < expected.size(); ++i) {
    auto fresh = open(options);
    ASSERT_TRUE(fresh);
    for (auto* source : {&*fresh, &*used}) {
      ASSERT_TRUE((*source)->restore(cursors[i]));
      EXPECT_EQ((*source)->cursor(), cursors[i]);
      auto row = (*source)->next();
      ASSERT_TRUE(row);
      ASSERT_TRUE(same(*row, expected[i])) << i;
      EXPECT_EQ((*source)->cursor(), cursors[i + 1]);
    }
    auto skipping = open(options);
    ASSERT_TRUE(skipping);
    ASSERT_TRUE((*skipping)->skip(static_cast<int64_t>(i)));
    EXPECT_EQ((*skipping)->cursor(), cursors[i]);
  }
}

TEST(SftRows, ACheckpointOfOneLengthGoesOnWithAnother) {
  testing::TemporaryFolder folder;
  write(folder / "a.jsonl", row_text("a", "b") + "\n" + row_text("c", "d") + "\n");
  SftRowsOptions options = options_of(folder / "a.jsonl");
  auto rows = open(options);
  options.seq_len = 40;
  auto shorter = open(options);
  ASSERT_TRUE(rows && shorter);
  ASSERT_TRUE((*rows)->skip(3));
  EXPECT_TRUE((*shorter)->restore((*rows)->cursor()));
}

TEST(SftRows, ValidationEndsItsLastRowWithTheEpoch) {
  testing::TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 5; ++i) text += row_text("a", std::string(20, 'b')) + "\n";
  write(folder / "a.jsonl", text + row_text(std::string(100, 'x'), "skipped") + "\n");
  SftRowsOptions options = options_of(folder / "a.jsonl");
  options.validation = true;
  auto rows = open(options);
  ASSERT_TRUE(rows);
  std::vector<Row> first;
  size_t sequences = 0;
  while ((*rows)->progress().epoch == 0) {
    auto row = (*rows)->next();
    ASSERT_TRUE(row);
    sequences += row->sequence_lengths.size();
    first.push_back(*std::move(row));
    ASSERT_LE(first.size(), 6u);
  }
  EXPECT_EQ(sequences, 5u);
  EXPECT_EQ((*rows)->progress().skipped_samples, 1);
  for (const Row& expected : first) {
    auto row = (*rows)->next();
    ASSERT_TRUE(row && same(*row, expected));
  }
}

TEST(SftRows, WarnsOfSkippedSamplesAndCountsThem) {
  testing::TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 8; ++i) text += row_text(std::string(200, 'x'), "y") + "\n";
  write(folder / "a.jsonl", text + row_text("a", "b") + "\n");
  SftRowsOptions options = options_of(folder / "a.jsonl");
  options.shuffle = false;
  std::vector<std::string> warnings;
  options.warn = [&](const std::string& warning) { warnings.push_back(warning); };
  auto rows = open(options);
  ASSERT_TRUE(rows);
  ASSERT_TRUE((*rows)->next());
  EXPECT_GE((*rows)->progress().skipped_samples, 8);
  ASSERT_EQ(warnings.size(), 5u);
  EXPECT_EQ(warnings[0], "a.jsonl, line 1: skipped, none of its first 80 tokens is trained on");
  EXPECT_THAT(warnings[4], HasSubstr("only counted"));
}

// They come again in each epoch, and in each pass over validation data.
TEST(SftRows, NamesASkippedSampleOnce) {
  testing::TemporaryFolder folder;
  std::string skipped = row_text(std::string(200, 'x'), "y") + "\n";
  write(folder / "a.jsonl", skipped + row_text("a", "b") + "\n" + skipped);
  SftRowsOptions options = options_of(folder / "a.jsonl");
  std::vector<std::string> warnings;
  options.warn = [&](const std::string& warning) { warnings.push_back(warning); };
  auto rows = open(options);
  ASSERT_TRUE(rows);
  std::string start = (*rows)->cursor();
  for (int pass = 0; pass < 3; ++pass) {
    ASSERT_TRUE((*rows)->restore(start));
    while ((*rows)->progress().epoch < 4) ASSERT_TRUE((*rows)->next());
  }
  EXPECT_THAT(warnings, ::testing::UnorderedElementsAre(HasSubstr("a.jsonl, line 1: skipped"), HasSubstr("a.jsonl, line 3: skipped")));
}

TEST(SftRows, FindsTheOneSampleThatIsNotSkippedInEveryOrder) {
  testing::TemporaryFolder folder;
  std::string skipped = row_text(std::string(200, 'x'), "y") + "\n";
  write(folder / "a.jsonl", skipped + row_text("a", "b") + "\n" + skipped);
  auto rows = open(options_of(folder / "a.jsonl"));
  ASSERT_TRUE(rows);
  while ((*rows)->progress().epoch < 50) ASSERT_TRUE((*rows)->next());
}

TEST(SftRows, RefusesDataThatCannotTrain) {
  testing::TemporaryFolder folder;
  write(folder / "a.jsonl", row_text(std::string(200, 'x'), "y") + "\n" + row_text(std::string(200, 'x'), "y") + "\n");
  auto rows = open(options_of(folder / "a.jsonl"));
  ASSERT_TRUE(rows);
  auto row = (*rows)->next();
  ASSERT_FALSE(row);
  EXPECT_EQ(row.error().code(), Code::kDataInvalid);
  EXPECT_THAT(row.error().message(), HasSubstr("none of its 2 conversations"));

  write(folder / "bad.jsonl", row_text("a", "b") + "\n\n{\"messages\": [{\"role\": \"x\"}]}\n");
  auto bad = open(options_of(folder / "bad.jsonl"));
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code(), Code::kDataInvalid);
  EXPECT_THAT(bad.error().message(), HasSubstr("bad.jsonl, line 3: messages[0]: its role is 'x'"));

  SftRowsOptions options = options_of(folder / "a.jsonl");
  options.vocab_size = 200;
  auto small = open(options);
  ASSERT_FALSE(small);
  EXPECT_EQ(small.error().message(), "the tokenizer 'bytes' has 262 ids, but the model only 200");
  options = options_of(folder / "a.jsonl");
  options.seq_len = 0;
  EXPECT_FALSE(open(options));
}

TEST(SftRows, RefusesTheCursorOfOtherData) {
  testing::TemporaryFolder folder;
  write(folder / "a.jsonl", row_text("a", "b") + "\n");
  write(folder / "b.jsonl", row_text("a", "bc") + "\n");
  SftRowsOptions options = options_of(folder / "a.jsonl");
  auto rows = open(options);
  options.seed = 6;
  auto reseeded = open(options);
  auto other = open(options_of(folder / "b.jsonl"));
  ASSERT_TRUE(rows && reseeded && other);
  for (auto* source : {&*reseeded, &*other}) {
    auto status = (*rows)->restore((*source)->cursor());
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), Code::kCheckpointMismatch);
    EXPECT_THAT(status.error().message(), HasSubstr("fingerprint"));
  }
  std::string cursor = (*rows)->cursor();
  cursor.replace(cursor.find("\"place\": 0"), 10, "\"place\": 9");
  EXPECT_FALSE((*rows)->restore(cursor));
  EXPECT_FALSE((*rows)->restore("nonsense"));
}

TEST(SftRows, ShowsSamplesToPeople) {
  testing::TemporaryFolder folder;
  write(folder / "a.jsonl", row_text("a", "b") + "\n");
  auto rows = open(options_of(folder / "a.jsonl"));
  ASSERT_TRUE(rows);
  auto sample = (*rows)->look(0);
  ASSERT_TRUE(sample);
  EXPECT_EQ(sample->where, "a.jsonl, line 1");
  EXPECT_EQ(sample->rendered.text, "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n");
  EXPECT_EQ(std::accumulate(sample->tokens.trainable.begin(), sample->tokens.trainable.end(), 0), 2);
  EXPECT_FALSE(sample->skipped);
}

}  // namespace
}  // namespace cairn::dataset
