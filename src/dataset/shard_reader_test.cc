// Shards written by datatrove itself, shards of ours read back, and every way in which the files of a shard can disagree.
#include "dataset/shard_reader.h"

#include <unistd.h>

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "dataset/shard_fixture.h"
#include "dataset/shard_format.h"
#include "dataset/shard_pool.h"
#include "os/memory_file_system.h"
#include "testing/temporary_folder.h"

namespace cairn::dataset {
namespace {

using ::testing::HasSubstr;
using test::Ids;
using test::write_file;
using test::write_shard;

const std::string kGolden = CAIRN_SOURCE_DIR "/tests/golden/datatrove/";

Ids all_ids(ShardReader& shard) {
  Ids ids(shard.tokens());
  Status read = shard.read(0, ids);
  EXPECT_TRUE(read) << read.error().to_string();
  return ids;
}

std::string u64s(std::initializer_list<uint64_t> values) {
  codec::Bytes bytes;
  for (uint64_t value : values) codec::ByteWriter(bytes).u64(value);
  return std::string(codec::as_text(bytes));
}

void expect_refused(const Result<ShardReader>& shard, Code code, std::initializer_list<const char*> parts) {
  ASSERT_FALSE(shard);
  EXPECT_EQ(shard.error().code(), code) << shard.error().to_string();
  for (const char* part : parts) EXPECT_THAT(shard.error().message(), HasSubstr(part));
}

TEST(ShardReader, ReadsWhatDatatroveWrote) {
  std::ifstream file(kGolden + "expected.json");
  auto expected = nlohmann::json::parse(file);
  size_t shards = 0;
  for (const auto& [set, list] : expected.items()) {
    for (const auto& entry : list) {
      SCOPED_TRACE(set + "/" + entry["name"].get<std::string>());
      auto shard = ShardReader::open(kGolden + set + "/" + entry["name"].get<std::string>());
      ASSERT_TRUE(shard) << shard.error().to_string();
      ++shards;
      EXPECT_EQ(all_ids(*shard), entry["ids"].get<Ids>());
      EXPECT_EQ(shard->token_size(), entry["token_size"].get<uint32_t>());
      ASSERT_EQ(shard->documents().has_value(), !entry["ends"].is_null());
      if (shard->documents()) {
        std::vector<uint64_t> ends(*shard->documents());
        ASSERT_TRUE(shard->read_document_ends(0, ends));
        EXPECT_EQ(ends, entry["ends"].get<std::vector<uint64_t>>());
      }
      EXPECT_EQ(shard->has_loss(), !entry["loss"].is_null());
      std::vector<uint8_t> learnt(shard->tokens());
      ASSERT_TRUE(shard->read_loss(0, learnt));
      EXPECT_EQ(learnt, entry["loss"].is_null() ? std::vector<uint8_t>(learnt.size(), 1) : entry["loss"].get<std::vector<uint8_t>>());
      // Its reader's windows: eight ids, none shared, none over the end.
      for (size_t i = 0; i < entry["windows"].size(); ++i) {
        Ids window(8);
        ASSERT_TRUE(shard->read(i * 8, window));
        EXPECT_EQ(window, entry["windows"][i].get<Ids>());
      }
    }
  }
  EXPECT_EQ(shards, 15u);
  EXPECT_EQ(ShardReader::open(kGolden + "narrow_shuffled/00000_00000_doc_shuffled.ds")->tokenizer(), "work/nar|row.json");
}

// Our writer's bytes for the same documents are datatrove's.
TEST(ShardWriter, WritesWhatDatatroveWrote) {
  for (const char* name : {"narrow_unshuffled/00000_unshuffled.ds", "wide_unshuffled/00000_unshuffled.ds"}) {
    auto shard = ShardReader::open(kGolden + name);
    ASSERT_TRUE(shard);
    Ids ids = all_ids(*shard);
    std::vector<uint64_t> ends(*shard->documents());
    ASSERT_TRUE(shard->read_document_ends(0, ends));
    std::vector<Ids> documents;
    auto at = [&](uint64_t end) { return ids.begin() + static_cast<std::ptrdiff_t>(end); };
    for (size_t i = 0; i < ends.size(); ++i) documents.emplace_back(at(i == 0 ? 0 : ends[i - 1]), at(ends[i]));
    testing::TemporaryFolder folder;
    write_shard(folder / "x.ds", shard->token_size(), documents, shard->tokenizer());
    for (const char* ending : {"", ".index", ".metadata"}) {
      EXPECT_EQ(os::posix_file_system().read_file(folder / (std::string("x.ds") + ending), 10'000).value_or("?"),
                os::posix_file_system().read_file(kGolden + name + ending, 10'000).value_or("!"))
          << name << ending;
    }
  }
}

TEST(ShardWriter, ReadsBackRandomShardsAnywhere) {
  uint64_t seed = 20;
  SCOPED_TRACE(seed);
  SeededRandom random(seed);
  for (uint32_t width : {2u, 4u}) {
    testing::TemporaryFolder folder;
    std::vector<Ids> documents;
    Ids all;
    for (int i = 0; i < 50; ++i) {
      Ids document(random.below(i == 7 ? 300'000 : 5'000));
      for (uint32_t& id : document) id = static_cast<uint32_t>(random.below(width == 2 ? 65'536 : uint64_t{1} << 32));
      all.insert(all.end(), document.begin(), document.end());
      documents.push_back(document);
    }
    write_shard(folder / "x.ds", width, documents);
    auto shard = ShardReader::open(folder / "x.ds");
    ASSERT_TRUE(shard) << shard.error().to_string();
    EXPECT_EQ(all_ids(*shard), all);
    for (int i = 0; i < 200; ++i) {
      uint64_t first = random.below(all.size() + 1);
      Ids part(random.below(std::min<uint64_t>(all.size() - first, 2000) + 1));
      ASSERT_TRUE(shard->read(first, part));
      EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + static_cast<std::ptrdiff_t>(first)));
      if (i % 50 == 0) shard->close();
    }
  }
}

TEST(ShardWriter, RefusesIdsThatDoNotFitAndLeavesNothing) {
  testing::TemporaryFolder folder;
  {
    auto writer = ShardWriter::create(os::posix_file_system(), folder / "x.ds", 2, "tiny");
    ASSERT_TRUE(writer);
    Status appended = (*writer)->append(Ids{1, 65'536});
    ASSERT_FALSE(appended);
    EXPECT_EQ(appended.error().code(), Code::kDataInvalid);
    EXPECT_THAT(appended.error().message(), HasSubstr("65536"));
  }
  EXPECT_TRUE(os::posix_file_system().list(folder.path())->empty());
}

TEST(ShardWriter, TakesTheNameOnceAndReplacesLeftovers) {
  testing::TemporaryFolder folder;
  write_file(folder / "x.ds.tmp", "left over");
  write_shard(folder / "x.ds", 2, {{1, 2}});
  auto second = ShardWriter::create(os::posix_file_system(), folder / "x.ds", 2, "tiny");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::kFileExists);
}

TEST(ShardWriter, MetadataComesAfterDurableFiles) {
  os::MemoryFileSystem files;
  ASSERT_TRUE(files.make_directories("/d", 0755));
  ASSERT_TRUE(files.sync_directory("/"));
  auto writer = ShardWriter::create(files, "/d/x.ds", 2, "tiny");
  ASSERT_TRUE(writer);
  ASSERT_TRUE((*writer)->append(Ids{1, 2, 3}));
  ASSERT_TRUE((*writer)->finish());
  files.crash();
  EXPECT_EQ(files.read_file("/d/x.ds", 100)->size(), 6u);
  EXPECT_EQ(files.read_file("/d/x.ds.index", 100)->size(), 8u);
  EXPECT_EQ(*files.read_file("/d/x.ds.metadata", 100), "tiny|2\n3\n3.00 T");
}

class ShardRefusal : public ::testing::Test {
 protected:
  void SetUp() override { write_shard(path_, 2, {{1, 2, 3}, {4, 5}}); }
  testing::TemporaryFolder folder_;
  std::string path_ = folder_ / "x.ds";
};

TEST_F(ShardRefusal, Truncated) {
  ASSERT_EQ(truncate(path_.c_str(), 8), 0);
  expect_refused(ShardReader::open(path_), Code::kDataCorrupt, {"x.ds.metadata", "says 5 tokens", "holds 4"});
  ASSERT_EQ(truncate(path_.c_str(), 7), 0);
  expect_refused(ShardReader::open(path_), Code::kDataCorrupt, {"x.ds", "7 bytes", "token size 2"});
}

TEST_F(ShardRefusal, IndexDisagrees) {
  write_file(path_ + ".index", u64s({3, 6}));
  expect_refused(ShardReader::open(path_), Code::kDataCorrupt, {"x.ds.index says 6 tokens", "x.ds holds 5"});
  write_file(path_ + ".index", u64s({3, 5}) + "x");
  expect_refused(ShardReader::open(path_), Code::kDataCorrupt, {"x.ds.index", "17 bytes"});
  write_file(path_ + ".index", "");
  expect_refused(ShardReader::open(path_), Code::kDataCorrupt, {"says 0 tokens", "holds 5"});
  write_file(path_ + ".index", u64s({7, 5}));
  auto shard = ShardReader::open(path_);
  ASSERT_TRUE(shard);
  std::vector<uint64_t> ends(2);
  Status read = shard->read_document_ends(0, ends);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code(), Code::kDataCorrupt);
  read = shard->read_document_ends(1, std::span(ends).first(1));
  EXPECT_FALSE(read);
}

TEST_F(ShardRefusal, MetadataDisagree) {
  write_file(path_ + ".metadata", "tiny|2\n7\n7.00 T");
  expect_refused(ShardReader::open(path_), Code::kDataCorrupt, {"says 7 tokens", "holds 5"});
  write_file(path_ + ".metadata", "tiny|4\n5\n5.00 T");
  expect_refused(ShardReader::open(path_), Code::kDataCorrupt, {"10 bytes", "token size 4"});
  write_file(path_ + ".loss", "abc");
  write_file(path_ + ".metadata", "tiny|2\n5\n5.00 T");
  expect_refused(ShardReader::open(path_), Code::kDataCorrupt, {"x.ds.loss says 3 tokens", "holds 5"});
}

TEST_F(ShardRefusal, WithoutMetadataTheIndexTellsTheWidth) {
  ASSERT_EQ(unlink((path_ + ".metadata").c_str()), 0);
  EXPECT_EQ(ShardReader::open(path_)->token_size(), 2u);
  write_file(path_ + ".index", u64s({3, 7}));
  expect_refused(ShardReader::open(path_), Code::kDataCorrupt, {"says 7 tokens", "holds 5"});
  ASSERT_EQ(unlink((path_ + ".index").c_str()), 0);
  expect_refused(ShardReader::open(path_), Code::kDataInvalid, {"x.ds.metadata", "2 or 4 bytes"});
  write_shard(folder_ / "wide.ds", 4, {{1, 2, 3}});
  ASSERT_EQ(unlink((folder_ / "wide.ds.metadata").c_str()), 0);
  EXPECT_EQ(ShardReader::open(folder_ / "wide.ds")->token_size(), 4u);
}

TEST_F(ShardRefusal, LinksAndOddFiles) {
  ASSERT_EQ(symlink(path_.c_str(), (folder_ / "link.ds").c_str()), 0);
  expect_refused(ShardReader::open(folder_ / "link.ds"), Code::kDataInvalid, {"link.ds is a link"});
  ASSERT_EQ(mkdir((folder_ / "folder.ds").c_str(), 0755), 0);
  expect_refused(ShardReader::open(folder_ / "folder.ds"), Code::kDataInvalid, {"no regular file"});
  ASSERT_EQ(rename((path_ + ".index").c_str(), (folder_ / "elsewhere").c_str()), 0);
  ASSERT_EQ(symlink("elsewhere", (path_ + ".index").c_str()), 0);
  expect_refused(ShardReader::open(path_), Code::kDataInvalid, {"x.ds.index is a link"});
}

TEST_F(ShardRefusal, FileThatChanges) {
  auto shard = ShardReader::open(path_);
  ASSERT_TRUE(shard);
  Ids ids(5);
  ASSERT_TRUE(shard->read(0, ids));
  ASSERT_EQ(truncate(path_.c_str(), 4), 0);
  Status read = shard->read(0, ids);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code(), Code::kFileChanged);
  shard->close();
  write_file(path_, "0123456789");
  read = shard->read(0, ids);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code(), Code::kFileChanged);
}

TEST(ShardPool, JoinsAllShardsInTheOrderOfTheirPaths) {
  testing::TemporaryFolder folder;
  write_shard(folder / "b/00001_unshuffled.ds", 4, {{70'000, 5}});
  write_shard(folder / "b/00000_unshuffled.ds", 2, {});
  write_shard(folder / "a/deep/er/x.ds", 2, {{1}, {2, 3}});
  write_shard(folder / "a/z.ds", 2, {{4}});
  write_file(folder / "b/all.ds.metadata", "of a merged set");
  write_file(folder / "b/README.md", "text");
  auto pool = ShardPool::open({folder / "b/", folder / "a"});
  ASSERT_TRUE(pool) << pool.error().to_string();
  EXPECT_EQ(pool->shards().size(), 4u);
  ASSERT_EQ(pool->tokens(), 6u);
  Ids ids(6);
  ASSERT_TRUE(pool->read(0, ids, {}));
  EXPECT_EQ(ids, (Ids{1, 2, 3, 4, 70'000, 5}));
  EXPECT_EQ(pool->locate(4).shard->relative(), "00001_unshuffled.ds");
  EXPECT_EQ(pool->locate(4).offset, 0u);
  auto single = ShardPool::open({folder / "a/z.ds"});
  ASSERT_TRUE(single);
  EXPECT_EQ(single->tokens(), 1u);
}

TEST(ShardPool, RefusesWhatIsNoSet) {
  testing::TemporaryFolder folder;
  auto refused = [&](const std::vector<std::string>& paths, Code code, const char* part) {
    auto pool = ShardPool::open(paths);
    ASSERT_FALSE(pool);
    EXPECT_EQ(pool.error().code(), code) << pool.error().to_string();
    EXPECT_THAT(pool.error().message(), HasSubstr(part));
  };
  refused({folder / "none"}, Code::kDataMissingOnVolume, "none");
  refused({folder.path()}, Code::kDataInvalid, "no shard");
  write_shard(folder / "a/x.ds", 2, {{1, 2}});
  write_file(folder / "text.txt", "text");
  refused({folder / "text.txt"}, Code::kDataInvalid, "text.txt");
  refused({folder / "a", folder / "a"}, Code::kDataInvalid, "twice");
  refused({folder.path(), folder / "a/x.ds"}, Code::kDataInvalid, "twice");
  ASSERT_EQ(symlink("/etc", (folder / "a/link").c_str()), 0);
  refused({folder / "a"}, Code::kDataInvalid, "a/link is a link");
}

TEST(ShardPool, ManyShardsNeedFewDescriptors) {
  testing::TemporaryFolder folder;
  for (uint32_t i = 0; i < 3 * kOpenShardsMax; ++i) write_shard(folder / shard_file_name(i, false), 2, {{i}});
  auto pool = ShardPool::open({folder.path()});
  ASSERT_TRUE(pool);
  Ids ids(pool->tokens());
  ASSERT_TRUE(pool->read(0, ids, {}));
  for (uint32_t i = 0; i < ids.size(); ++i) EXPECT_EQ(ids[i], i);
  EXPECT_LE(os::posix_file_system().list("/proc/self/fd")->size(), kOpenShardsMax + 20);
}

TEST(ShardPool, FingerprintFollowsTheDataNotThePlace) {
  testing::TemporaryFolder folder;
  write_shard(folder / "a/x.ds", 2, {{1, 2, 3}});
  write_shard(folder / "b/x.ds", 2, {{1, 2, 3}});
  write_shard(folder / "c/x.ds", 2, {{1, 2, 4}});
  write_shard(folder / "d/y.ds", 2, {{1, 2, 3}});
  auto of = [&](const char* name) { return *ShardPool::open({folder / name})->fingerprint(); };
  EXPECT_EQ(of("a").size(), 64u);
  EXPECT_EQ(of("a"), of("b"));
  EXPECT_NE(of("a"), of("c"));
  EXPECT_NE(of("a"), of("d"));
}

}  // namespace
}  // namespace cairn::dataset
