#include "dataset/tokenize.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "dataset/shard_fixture.h"
#include "dataset/shard_format.h"
#include "dataset/shard_pool.h"
#include "testing/temporary_folder.h"

namespace cairn::dataset {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using test::Ids;
using test::write_file;

const std::string kGolden = CAIRN_SOURCE_DIR "/tests/golden/";

std::string read_file(const std::string& path) { return os::posix_file_system().read_file(path, 1 << 24).value_or("?"); }

std::shared_ptr<const Tokenizer> golden_tokenizer() {
  auto tokenizer = Tokenizer::parse(read_file(kGolden + "tokenizer/tokenizer.json"), "golden");
  EXPECT_TRUE(tokenizer) << tokenizer.error().to_string();
  return tokenizer.value_or(nullptr);
}

TokenizeOptions options_of(const std::vector<std::string>& inputs, const std::string& output) {
  TokenizeOptions options;
  options.source.inputs = inputs;
  options.output = output;
  options.tokenizer_name = "golden";
  options.eos_id = golden_tokenizer()->id_of("<|endoftext|>");
  return options;
}

std::map<std::string, std::string> files_in(const std::string& folder) {
  std::map<std::string, std::string> files;
  auto entries = os::posix_file_system().list(folder);
  EXPECT_TRUE(entries);
  for (const os::DirectoryEntry& entry : *entries) files[entry.name] = read_file(folder + "/" + entry.name);
  return files;
}

// The documents of a shard as ids.
std::vector<Ids> documents_in(const std::string& path) {
  auto shard = ShardReader::open(path);
  EXPECT_TRUE(shard) << shard.error().to_string();
  std::vector<uint64_t> ends(*shard->documents());
  EXPECT_TRUE(shard->read_document_ends(0, ends));
  std::vector<Ids> documents;
  uint64_t start = 0;
  for (uint64_t end : ends) {
    Ids& ids = documents.emplace_back(end - start);
    EXPECT_TRUE(shard->read(start, ids));
    start = end;
  }
  return documents;
}

// Thousands of documents in files of every kind.
void write_corpus(const testing::TemporaryFolder& folder) {
  SeededRandom random(2);
  std::string lines;
  for (int i = 0; i < 2000; ++i) {
    std::string text = "document " + std::to_string(i);
    for (uint64_t n = random.below(i % 500 == 0 ? 40'000 : 300); n > 0; --n) text += " word" + std::to_string(random.below(50));
    if (i % 100 == 0) write_file(folder / ("in/part" + std::to_string(i) + ".txt"), text);
    else lines += "{\"text\":\"" + text + "\"}\n";
  }
  write_file(folder / "in/lines.jsonl", lines);
}

TEST(Tokenize, WritesWhatDatatroveWrites) {
  testing::TemporaryFolder folder;
  auto options = options_of({kGolden + "datatrove/documents.jsonl"}, folder / "out");
  options.shuffle = false;
  options.tokenizer_name = "../tokenizer/tokenizer.json";
  auto done = tokenize(golden_tokenizer(), options);
  ASSERT_TRUE(done) << done.error().to_string();
  EXPECT_EQ(done->documents, 30u);
  EXPECT_EQ(done->shards, 1u);
  EXPECT_EQ(done->read_bytes, done->total_bytes);
  EXPECT_EQ(files_in(folder / "out"), files_in(kGolden + "datatrove/tokenized"));
}

TEST(Tokenize, DoesNotDependOnTheNumberOfWorkers) {
  testing::TemporaryFolder folder;
  write_corpus(folder);
  for (bool shuffle : {false, true}) {
    std::map<std::string, std::string> first;
    for (size_t workers : {1u, 2u, 7u}) {
      std::string output = folder / ("out" + std::to_string(workers) + (shuffle ? "s" : "u"));
      auto options = options_of({folder / "in"}, output);
      options.shuffle = shuffle;
      options.workers = workers;
      options.max_tokens_per_shard = 150'000;
      auto done = tokenize(golden_tokenizer(), options);
      ASSERT_TRUE(done) << done.error().to_string();
      EXPECT_EQ(done->documents, 2000u);
      EXPECT_GT(done->shards, 3u);
      auto files = files_in(output);
      EXPECT_EQ(files.size(), done->shards * 3);
      if (workers == 1) first = files;
      EXPECT_TRUE(files == first) << workers;
      auto pool = ShardPool::open({output});
      ASSERT_TRUE(pool) << pool.error().to_string();
      EXPECT_EQ(pool->tokens(), done->tokens);
    }
    EXPECT_EQ(first.begin()->first, shuffle ? "00000_00000_doc_shuffled.ds" : "00000_unshuffled.ds");
  }
}

TEST(Tokenize, ShufflesTheDocumentsOfEachShard) {
  testing::TemporaryFolder folder;
  write_corpus(folder);
  auto options = options_of({folder / "in"}, folder / "plain");
  options.shuffle = false;
  options.max_tokens_per_shard = 150'000;
  auto plain = tokenize(golden_tokenizer(), options);
  ASSERT_TRUE(plain);
  std::map<uint64_t, std::vector<Ids>> by_seed;
  for (uint64_t seed : {0u, 1u}) {
    options.output = folder / ("shuffled" + std::to_string(seed));
    options.shuffle = true;
    options.seed = seed;
    ASSERT_TRUE(tokenize(golden_tokenizer(), options));
    for (uint64_t rank = 0; rank < plain->shards; ++rank) {
      auto before = documents_in(folder / ("plain/" + shard_file_name(rank, false)));
      auto after = documents_in(options.output + "/" + shard_file_name(rank, true));
      if (rank == 0) by_seed[seed] = after;
      EXPECT_NE(before, after);
      std::sort(before.begin(), before.end());
      std::sort(after.begin(), after.end());
      EXPECT_EQ(before, after);
      for (const Ids& document : after) ASSERT_EQ(document.back(), options.eos_id);
    }
  }
  EXPECT_NE(by_seed[0], by_seed[1]);
}

TEST(Tokenize, DecodesBackToTheTexts) {
  testing::TemporaryFolder folder;
  write_file(folder / "a.txt", "first \xf0\x9f\x98\x80");
  write_file(folder / "b.txt", "second");
  auto options = options_of({folder / "a.txt", folder / "b.txt"}, folder / "out");
  options.shuffle = false;
  auto tokenizer = golden_tokenizer();
  ASSERT_TRUE(tokenize(tokenizer, options));
  std::vector<std::string> texts;
  for (const Ids& ids : documents_in(folder / "out/00000_unshuffled.ds")) texts.push_back(tokenizer->decode(ids));
  EXPECT_THAT(texts, ElementsAre("first \xf0\x9f\x98\x80<|endoftext|>", "second<|endoftext|>"));
  options.eos_id.reset();
  options.output = folder / "without";
  ASSERT_TRUE(tokenize(tokenizer, options));
  EXPECT_EQ(tokenizer->decode(documents_in(folder / "without/00000_unshuffled.ds")[1]), "second");
}

TEST(Tokenize, FailsWithoutLeavingAnything) {
  testing::TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 60'000; ++i) lines += "{\"text\":\"some words to fill a line with " + std::to_string(i) + "\"}\n";
  write_file(folder / "x.jsonl", lines + "{\"no\":1}\n" + lines);
  for (bool shuffle : {false, true}) {
    auto options = options_of({folder / "x.jsonl"}, folder / (shuffle ? "a" : "b"));
    options.shuffle = shuffle;
    options.workers = 3;
    auto done = tokenize(golden_tokenizer(), options);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code(), Code::kDataInvalid);
    EXPECT_THAT(done.error().message(), HasSubstr("x.jsonl: line 60001: "));
    EXPECT_FALSE(std::filesystem::exists(options.output));
    EXPECT_FALSE(std::filesystem::exists(options.output + ".partial"));
  }
}

TEST(Tokenize, StopsWhenAsked) {
  testing::TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 200'000; ++i) lines += "{\"text\":\"some words to fill a line with " + std::to_string(i) + "\"}\n";
  write_file(folder / "x.jsonl", lines);
  auto options = options_of({folder / "x.jsonl"}, folder / "out");
  int calls = 0;
  auto done = tokenize(golden_tokenizer(), options, [&](const TokenizeProgress& progress) {
    EXPECT_LE(progress.read_bytes, progress.total_bytes);
    ++calls;
    return false;
  });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), Code::kCancelled);
  EXPECT_EQ(calls, 1);
}

TEST(Tokenize, AFailureAfterWholeShardsLeavesNone) {
  testing::TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 2'000; ++i) lines += "{\"text\":\"some words to fill a line with " + std::to_string(i) + "\"}\n";
  write_file(folder / "x.jsonl", lines + "{\"no\":1}\n");
  auto options = options_of({folder / "x.jsonl"}, folder / "out");
  options.max_tokens_per_shard = 500;
  std::filesystem::create_directory(options.output);
  ASSERT_FALSE(tokenize(golden_tokenizer(), options));
  EXPECT_TRUE(std::filesystem::is_empty(options.output));
  EXPECT_FALSE(std::filesystem::exists(options.output + ".partial"));
  write_file(folder / "x.jsonl", lines);
  ASSERT_TRUE(tokenize(golden_tokenizer(), options));  // into the empty folder
  EXPECT_FALSE(std::filesystem::exists(options.output + ".partial"));
}

TEST(Tokenize, WhatAKilledOneLeftIsNamed) {
  testing::TemporaryFolder folder;
  write_file(folder / "a.txt", "text");
  std::filesystem::create_directory(folder / "out.partial");
  auto done = tokenize(golden_tokenizer(), options_of({folder / "a.txt"}, folder / "out"));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), Code::kFileExists);
  EXPECT_THAT(done.error().hint(), HasSubstr("rm -r"));
  EXPECT_TRUE(std::filesystem::exists(folder / "out.partial"));  // another one may be writing it
}

TEST(Tokenize, RefusesAFolderWithShardsAndInputWithoutText) {
  testing::TemporaryFolder folder;
  write_file(folder / "a.txt", "text");
  auto options = options_of({folder / "a.txt"}, folder / "out");
  ASSERT_TRUE(tokenize(golden_tokenizer(), options));
  auto again = tokenize(golden_tokenizer(), options);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code(), Code::kFileExists);
  write_file(folder / "empty.jsonl", "\n{\"text\":\"\"}\n");
  auto nothing = tokenize(golden_tokenizer(), options_of({folder / "empty.jsonl"}, folder / "out2"));
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().code(), Code::kDataInvalid);
}

}  // namespace
}  // namespace cairn::dataset
