// The small parts: patterns, scanner, stat cache, journal, spool, chunk table.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "testing/local_trees.h"
#include "testing/temporary_folder.h"
#include "transfer/chunk_table.h"
#include "transfer/content_id.h"
#include "transfer/entry_spool.h"
#include "transfer/journal.h"
#include "transfer/manifest.h"
#include "transfer/ref_list.h"
#include "transfer/scan.h"
#include "transfer/stat_cache.h"

namespace cairn::transfer {
namespace {

using testing::TemporaryFolder;

std::optional<bool> matches(std::string_view patterns, std::string_view path, bool directory = false) {
  PatternList list;
  list.add_file(patterns);
  return list.match(path, directory);
}

TEST(Pattern, FollowsGitignore) {
  EXPECT_EQ(matches("*.pyc", "a/b/c.pyc"), true);
  EXPECT_EQ(matches("*.pyc", "a.pyc/x"), std::nullopt);
  EXPECT_EQ(matches("# no\n\n", "# no"), std::nullopt);
  EXPECT_EQ(matches("build/", "build"), std::nullopt);
  EXPECT_EQ(matches("build/", "x/build", true), true);
  EXPECT_EQ(matches("/build", "build"), true);
  EXPECT_EQ(matches("/build", "x/build"), std::nullopt);
  EXPECT_EQ(matches("a/*.txt", "a/x.txt"), true);
  EXPECT_EQ(matches("a/*.txt", "b/a/x.txt"), std::nullopt);
  EXPECT_EQ(matches("a/*.txt", "a/b/x.txt"), std::nullopt);
  EXPECT_EQ(matches("a/**/x", "a/x"), true);
  EXPECT_EQ(matches("a/**/x", "a/b/c/x"), true);
  EXPECT_EQ(matches("a/**/x", "a/b/cx"), std::nullopt);
  EXPECT_EQ(matches("**/x/y", "q/x/y"), true);
  EXPECT_EQ(matches("a/**", "a/b/c"), true);
  EXPECT_EQ(matches("*.log\n!keep.log", "d/keep.log"), false);
  EXPECT_EQ(matches("!keep.log\n*.log", "d/keep.log"), true);
  EXPECT_EQ(matches("[a-c]?[!0-9]", "bxy"), true);
  EXPECT_EQ(matches("[a-c]?[!0-9]", "bx9"), std::nullopt);
  EXPECT_EQ(matches("\\#x", "#x"), true);
  EXPECT_EQ(matches("\\!x", "!x"), true);
  EXPECT_EQ(matches("x*y*z", "x..yy..z"), true);
  EXPECT_EQ(matches("x*y*z", "x/y/z"), std::nullopt);
  EXPECT_EQ(matches("[", "["), true);
  std::string hard(60, 'a');
  EXPECT_EQ(matches("*a*a*a*a*a*a*a*a*a*a*a*a*b", hard), std::nullopt);
}

std::vector<std::string> scan(const std::string& root, ScanOptions options, ScanCounts* counts = nullptr) {
  Progress progress;
  auto scanner = Scanner::open(root, std::move(options), progress);
  CAIRN_CHECK(scanner.has_value());
  std::vector<std::string> paths;
  while (true) {
    auto entry = (*scanner)->next(Deadline::never());
    CAIRN_CHECK(entry.has_value());
    if (!*entry) break;
    if (!(*entry)->path.empty()) paths.push_back((*entry)->path);
  }
  if (counts != nullptr) *counts = (*scanner)->counts();
  return paths;
}

TEST(Scan, VolumeOrderAndIgnoreFiles) {
  TemporaryFolder folder;
  for (const char* name : {"a", "a/b", "a-b", "z", "z/cache", "z/deep"}) ASSERT_EQ(::mkdir((folder / name).c_str(), 0755), 0);
  for (const char* name : {"a/b/f", "a/g", "a.txt", "a-b/f", "z/cache/x", "z/deep/y.o", "z/deep/y.c", "z/keep.o"}) {
    testing::write_local(folder / name, name);
  }
  std::vector<std::string> all = scan(folder.path(), {});
  EXPECT_EQ(all.size(), 14u);
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end(), store::PathLess()));
  testing::write_local(folder / "z/.gitignore", "cache/\n*.o\n!/keep.o\n");
  ScanOptions ignoring;
  ignoring.ignore_file_names = {".gitignore"};
  ScanCounts counts;
  std::vector<std::string> left = scan(folder.path(), ignoring, &counts);
  EXPECT_EQ(left, (std::vector<std::string>{"a", "a/b", "a/b/f", "a/g", "a-b", "a-b/f", "a.txt", "z", "z/.gitignore", "z/deep",
                                            "z/deep/y.c", "z/keep.o"}));
  EXPECT_EQ(counts.excluded, 2u);
  ScanOptions selecting;
  selecting.include = {"y.*", "/a/b/"};
  EXPECT_EQ(scan(folder.path(), selecting),
            (std::vector<std::string>{"a", "a/b", "a/b/f", "z", "z/deep", "z/deep/y.c", "z/deep/y.o"}));
  ScanOptions exception;
  exception.exclude = {"*.o"};
  exception.include = {"keep.o"};
  std::vector<std::string> excepted = scan(folder.path() + "/z", exception);
  EXPECT_TRUE(std::count(excepted.begin(), excepted.end(), "keep.o"));
  EXPECT_FALSE(std::count(excepted.begin(), excepted.end(), "deep/y.o"));
}

TEST(Scan, DeepTreesNeedFewDescriptors) {
  TemporaryFolder folder;
  std::string path;
  for (int i = 0; i < 400; ++i) {
    path += "/d";
    ASSERT_EQ(::mkdir((folder.path() + path).c_str(), 0755), 0);
    if (i % 100 == 0) testing::write_local(folder.path() + path + "/z", "z");
  }
  std::vector<std::string> found = scan(folder.path(), {});
  EXPECT_EQ(found.size(), 404u);
  EXPECT_TRUE(std::is_sorted(found.begin(), found.end(), store::PathLess()));
}

TEST(StatCacheTest, KeepsRefusesRacyAndSurvivesDamage) {
  TemporaryFolder folder;
  Time now{1'700'000'000'000'000};
  FileIdentity old{1, 2, 3, 1'600'000'000'000'000'001, 1'600'000'000'000'000'002};
  FileIdentity fresh{1, 3, 3, now.us * 1000 - 1'000'001, 1'600'000'000'000'000'002};
  FileIdentity coarse{1, 4, 3, (now.us / 1'000'000 - 1) * 1'000'000'000, 1'600'000'000'000'000'000};
  ContentId content = codec::sha256(codec::as_bytes("x"));
  StatCache cache(folder.path(), "tree");
  cache.insert(old, content, now);
  cache.insert(fresh, content, now);
  cache.insert(coarse, content, now);
  EXPECT_EQ(cache.find(old), content);
  EXPECT_EQ(cache.find(fresh), std::nullopt);
  EXPECT_EQ(cache.find(coarse), std::nullopt);
  ASSERT_TRUE(cache.save());
  StatCache again(folder.path(), "tree");
  again.load();
  EXPECT_EQ(again.find(old), content);
  FileIdentity touched = old;
  ++touched.ctime_ns;
  EXPECT_EQ(again.find(touched), std::nullopt);
  StatCache other(folder.path(), "another tree");
  other.load();
  EXPECT_EQ(other.size(), 0u);
  auto dir = os::Directory::open(folder.path() + "/stat");
  ASSERT_TRUE(dir);
  auto names = dir->list_names();
  ASSERT_TRUE(names);
  ASSERT_EQ(names->size(), 1u);
  testing::write_local(folder.path() + "/stat/" + (*names)[0], "CSC1 rubbish of some length that is no cache");
  StatCache damaged(folder.path(), "tree");
  damaged.load();
  EXPECT_EQ(damaged.size(), 0u);
}

TEST(StatCacheTest, IsBounded) {
  TemporaryFolder folder;
  StatCache cache(folder.path(), "tree", 100);
  for (uint64_t i = 0; i < 1000; ++i) cache.insert(FileIdentity{1, i, 3, 1, 1}, ContentId{}, Time{1'700'000'000'000'000});
  ASSERT_TRUE(cache.save());
  StatCache again(folder.path(), "tree", 100);
  again.load();
  EXPECT_EQ(again.size(), 100u);
}

TEST(JournalTest, RemembersPerSourceAndLocks) {
  TemporaryFolder folder;
  JournalEntry entry{"scope", UploadId::random(system_random()), "secret"};
  {
    auto journal = Journal::open(folder.path(), "here");
    ASSERT_TRUE(journal);
    EXPECT_FALSE((*journal)->load());
    ASSERT_TRUE((*journal)->save(entry));
    auto second = Journal::open(folder.path(), "here");
    ASSERT_TRUE(second);
    EXPECT_TRUE((*second)->locked_by_other());
    EXPECT_FALSE((*second)->load());
  }
  auto journal = Journal::open(folder.path(), "here");
  ASSERT_TRUE(journal);
  auto loaded = (*journal)->load();
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->secret, "secret");
  EXPECT_EQ(loaded->upload, entry.upload);
  EXPECT_EQ(loaded->scope, "scope");
  EXPECT_FALSE((*Journal::open(folder.path(), "elsewhere"))->load());
  (*journal)->clear();
  EXPECT_FALSE((*journal)->load());
}

store::ChunkRef chunk_of(uint64_t i) {
  store::ChunkRef ref;
  ref.hash = codec::sha256(codec::as_bytes(std::to_string(i)));
  ref.raw_len = static_cast<uint32_t>(i + 1);
  ref.place.offset = static_cast<uint32_t>(i * 7);
  ref.place.stored_len = 5;
  return ref;
}

TEST(EntrySpoolTest, WritesReadsAndDetectsDamage) {
  TemporaryFolder folder;
  auto file = make_scratch_file(folder.path());
  ASSERT_TRUE(file);
  SpoolWriter writer(file->get());
  std::vector<store::ChunkRef> many;
  for (uint64_t i = 0; i < 10'000; ++i) many.push_back(chunk_of(i));
  for (int i = 0; i < 3000; ++i) {
    SpoolEntry entry;
    entry.action = i % 3 == 0 ? Action::kRead : Action::kPut;
    entry.entry.path = "p/" + std::to_string(i) + "\xff";
    entry.entry.mtime_ns = -i;
    entry.entry.chunk_count = i == 1000 ? many.size() : i % 4;
    entry.identity.inode = static_cast<uint64_t>(i);
    ASSERT_TRUE(writer.add(entry, std::span(many).first(entry.entry.chunk_count)));
  }
  ASSERT_TRUE(writer.finish());
  SpoolReader reader(file->get());
  SpoolEntry entry;
  for (int i = 0; i < 3000; ++i) {
    auto more = reader.next(entry);
    ASSERT_TRUE(more && *more);
    EXPECT_EQ(entry.entry.mtime_ns, -i);
    if (i % 5 == 0) continue;  // chunks may be skipped
    bool truncated;
    auto chunks = read_chunks(reader, 20'000, &truncated);
    ASSERT_TRUE(chunks);
    EXPECT_EQ(chunks->size(), i == 1000 ? many.size() : static_cast<size_t>(i % 4));
  }
  EXPECT_FALSE(*reader.next(entry));
  uint8_t flipped = 0xA5;
  ASSERT_EQ(::pwrite(file->get(), &flipped, 1, 100), 1);
  SpoolReader damaged(file->get());
  EXPECT_EQ(damaged.next(entry).error().code(), Code::kDataCorrupt);
}

TEST(ChunkTableTest, IsExactAndBounded) {
  ChunkTable table(1 << 20);
  for (uint64_t i = 0; i < 100'000; ++i) table.add(chunk_of(i));
  EXPECT_TRUE(table.full());
  EXPECT_LE(table.size() * 48, 1u << 20);
  store::ChunkRef first = chunk_of(0);
  EXPECT_EQ(table.find_or_claim(first.hash, first.raw_len), first.place);
  EXPECT_EQ(table.find_or_claim(first.hash, first.raw_len + 1), std::nullopt) << "another length is another chunk";
}

TEST(RefListTest, SpillsToAFile) {
  TemporaryFolder folder;
  RefList list(folder.path(), 1000);
  for (uint64_t i = 10'000; i-- > 0;) ASSERT_TRUE(list.set(i, chunk_of(i)));
  uint64_t seen = 0;
  while (seen < list.count()) {
    auto part = list.read(seen);
    ASSERT_TRUE(part);
    for (const store::ChunkRef& ref : *part) EXPECT_EQ(ref, chunk_of(seen++));
  }
  EXPECT_EQ(seen, 10'000u);
}

}  // namespace
}  // namespace cairn::transfer
