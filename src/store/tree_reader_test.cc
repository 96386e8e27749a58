#include "store/tree_reader.h"

#include <array>
#include <atomic>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "object/memory_store.h"
#include "store/diff.h"
#include "store/mark.h"
#include "store/store_test_support.h"
#include "store/tree_node.h"

namespace cairn::store {
namespace {

using namespace test;

class Tree : public testing::Test {
 protected:
  void SetUp() override {
    SeededRandom random(21);
    auto add = [&](Entry entry) { entries_.emplace(entry.path, entry); };
    for (int d = 0; d < 40; ++d) {
      std::string folder = "data/part-" + std::to_string(d);
      if (d % 3 == 0) add(directory(folder));
      for (int i = 0; i < 300; ++i) add(file(folder + "/f" + std::to_string(i), random, i % 3));
    }
    for (int i = 0; i < 2000; ++i) add(file("flat/" + std::to_string(i), random, 1));
    add(directory("empty"));
    add(symlink("link", "data"));
    add(file("data-2", random, 70));
    add(file("\xff\xfe/bytes", random, 1));
    add(file("huge", random, 20'000));
    root_ = bulk_build(source_, packs_, entries_);
  }
  TreeReader reader() { return TreeReader(source_, root_, Deadline::never()); }

  MemoryPacks packs_;
  CachedNodeSource source_{packs_, 64 << 20};
  Reference entries_;
  RootRef root_;
};

TEST_F(Tree, FindsEntriesAndImpliedFolders) {
  for (const auto& [path, entry] : entries_) {
    auto found = reader().find(path);
    ASSERT_TRUE(found);
    ASSERT_TRUE(found->has_value()) << path;
    EXPECT_EQ(with_all_chunks(source_, **found), entry);
  }
  for (const char* absent : {"a", "data", "data/part-1", "zzz", "data/part-0/f0/x"}) {
    EXPECT_FALSE(reader().find(absent).value()) << absent;
  }
  EXPECT_TRUE(reader().stat("data/part-1").value()->implied);
  EXPECT_FALSE(reader().stat("data/part-0").value()->implied);
  EXPECT_TRUE(reader().stat("").value()->implied);
  EXPECT_FALSE(reader().stat("data/part-").value());
  TreeReader empty(source_, empty_root(), Deadline::never());
  EXPECT_FALSE(empty.find("a").value());
  EXPECT_EQ(empty.counts("a").value(), Counts());
  EXPECT_TRUE(empty.ls("", "", 10).value().names.empty());
}

TEST_F(Tree, CountsByTwoDescents) {
  for (const char* prefix : {"", "data", "data/part-1", "data/part-0", "flat", "flat/7", "huge", "empty", "nothing",
                             "data-2", "\xff\xfe", "data/part-39", "link"}) {
    CachedNodeSource cold(packs_, 0);
    TreeReader reader(cold, root_, Deadline::never());
    EXPECT_EQ(reader.counts(prefix).value(), counts_of(entries_, prefix)) << prefix;
    EXPECT_LE(cold.stats().reads, 2u * (root_.level + 1u)) << prefix;
  }
}

TEST_F(Tree, ListsOneLevelPageByPage) {
  for (const char* folder : {"", "data", "data/part-1", "data/part-3", "flat", "empty", "\xff\xfe"}) {
    std::map<std::string, bool, PathLess> expected;  // name -> implied
    std::string_view prefix = folder;
    for (const auto& [path, entry] : entries_) {
      if (!is_under(path, prefix)) continue;
      std::string rest = path.substr(prefix.empty() ? 0 : prefix.size() + 1);
      std::string name = rest.substr(0, rest.find('/'));
      expected.try_emplace(name, name != rest);
    }
    for (size_t limit : {1u, 7u, 1000u}) {
      std::map<std::string, bool, PathLess> names;
      std::string after;
      for (;;) {
        auto page = reader().ls(folder, after, limit);
        ASSERT_TRUE(page) << page.error().to_string();
        ASSERT_LE(page->names.size(), limit);
        for (const LsName& name : page->names) {
          EXPECT_TRUE(names.emplace(name.name, name.implied).second) << name.name;
          EXPECT_EQ(name.entry.path, join_path(folder, name.name));
        }
        if (!page->more) break;
        ASSERT_FALSE(page->names.empty());
        after = page->names.back().name;
      }
      EXPECT_EQ(names, expected) << folder << " " << limit;
    }
  }
  EXPECT_EQ(reader().ls("nothing", "", 10).error().code(), Code::kPathNotFound);
  EXPECT_EQ(reader().ls("huge", "", 10).value().names.at(0).name, "huge");
}

TEST_F(Tree, LsSkipsSubfolders) {
  CachedNodeSource cold(packs_, 64 << 20);
  TreeReader reader(cold, root_, Deadline::never());
  ASSERT_TRUE(reader.ls("", "", 1000));
  EXPECT_LE(cold.stats().reads, 20u);
}

Reference list_all(NodeSource& source, const RootRef& root, std::string_view prefix, uint64_t bytes_max, int* pages) {
  Reference all;
  std::optional<ListCursor> after;
  *pages = 0;
  for (;;) {
    ++*pages;
    BytesSink sink;
    auto page = write_listing(source, root, prefix, after, bytes_max, sink, Deadline::never());
    EXPECT_TRUE(page) << page.error().to_string();
    BytesSource bytes(sink.bytes());
    ChangesetReader reader(bytes, ChangesetMode::kListing);
    Change change;
    for (;;) {
      auto more = reader.next(change);
      EXPECT_TRUE(more) << more.error().to_string();
      if (!more || !*more) break;
      Entry& entry = all.try_emplace(change.entry.path, change.entry).first->second;
      EXPECT_EQ(entry.chunks.size(), change.first_chunk);
      for (auto chunks = reader.next_chunks(); chunks && !chunks->empty(); chunks = reader.next_chunks()) {
        entry.chunks.insert(entry.chunks.end(), chunks->begin(), chunks->end());
      }
    }
    if (!page || !page->next) return all;
    after = page->next;
  }
}

TEST_F(Tree, ListingsGoOnWhereTheyStopped) {
  int pages = 0;
  EXPECT_EQ(list_all(source_, root_, "", 1 << 30, &pages), entries_);
  EXPECT_EQ(pages, 1);
  EXPECT_EQ(list_all(source_, root_, "", 100'000, &pages), entries_);
  EXPECT_GT(pages, 10);
  Reference part;
  for (const auto& [path, entry] : entries_) {
    if (is_at_or_under(path, "data/part-7")) part.emplace(path, entry);
  }
  EXPECT_EQ(list_all(source_, root_, "data/part-7", 1, &pages), part);
  EXPECT_EQ(list_all(source_, root_, "huge", 1, &pages).size(), 1u);
  EXPECT_GT(pages, 4);
  EXPECT_TRUE(list_all(source_, root_, "nothing", 1, &pages).empty());
  BytesSink sink;
  EXPECT_EQ(write_listing(source_, root_, "", ListCursor{"link", 3}, 100, sink, Deadline::never()).error().code(),
            Code::kRequestInvalid);
}

class Collect final : public DiffSink {
 public:
  Status on_change(const EntryView* before, const EntryView* after) override {
    std::string path(before != nullptr ? before->path : after->path);
    EXPECT_TRUE(paths.empty() || path_compare(paths.back(), path) < 0);
    paths.push_back(path);
    text += (before == nullptr ? "+" : after == nullptr ? "-" : "~") + path + " ";
    return ok();
  }
  std::string text;
  std::vector<std::string> paths;
};

TEST_F(Tree, DiffReadsWhatChanged) {
  SeededRandom random(22);
  Reference after = entries_;
  ChangeList changes;
  changes.put(file("data/part-17/f5", random, 1));
  changes.put(file("data/part-18/new", random, 1));
  changes.remove("flat/1234");
  changes.remove_prefix("data/part-20");
  changes.sort();
  auto merged = merge(source_, packs_, root_, changes);
  ASSERT_TRUE(merged);
  CachedNodeSource cold(packs_, 0);
  Collect diff;
  ASSERT_TRUE(diff_trees(cold, root_, merged->root, diff, Deadline::never()));
  EXPECT_EQ(diff.paths.size(), 3u + 300u);
  EXPECT_NE(diff.text.find("~data/part-17/f5 "), std::string::npos);
  EXPECT_NE(diff.text.find("+data/part-18/new "), std::string::npos);
  EXPECT_NE(diff.text.find("-flat/1234 "), std::string::npos);
  EXPECT_LE(cold.stats().reads, 30u);
  Collect all;
  ASSERT_TRUE(diff_trees(source_, empty_root(), root_, all, Deadline::never()));
  EXPECT_EQ(all.paths.size(), entries_.size());
  Collect none;
  ASSERT_TRUE(diff_trees(source_, root_, root_, none, Deadline::never()));
  EXPECT_TRUE(none.paths.empty());
}

TEST_F(Tree, RandomDiffsAgreeWithMaps) {
  SeededRandom random(23);
  RootRef last_root = root_;
  Reference last = entries_;
  for (int round = 0; round < 25; ++round) {
    Reference next = last;
    ChangeList changes;
    for (uint64_t i = 1 + random.below(30); i > 0; --i) {
      auto it = std::next(next.begin(), static_cast<ptrdiff_t>(random.below(next.size())));
      if (it->second.kind != EntryKind::kFile) continue;
      std::string path = it->first;
      if (random.below(3) == 0) {
        next.erase(it);
      } else if (random.below(2) == 0) {
        next[path + "+"] = file(path + "+", random, 1);
      } else {
        it->second = file(path, random, 1);
      }
    }
    RootRef root = bulk_build(source_, packs_, next);
    std::string expected;
    Reference both = last;
    both.insert(next.begin(), next.end());
    for (const auto& [path, unused] : both) {
      auto before = last.find(path);
      auto after = next.find(path);
      if (before == last.end()) expected += "+" + path + " ";
      else if (after == next.end()) expected += "-" + path + " ";
      else if (!(before->second == after->second)) expected += "~" + path + " ";
    }
    Collect diff;
    ASSERT_TRUE(diff_trees(source_, last_root, root, diff, Deadline::never()));
    ASSERT_EQ(diff.text, expected);
    last = next;
    last_root = root;
  }
}

TEST_F(Tree, MarkFindsEveryPackOnce) {
  Marker marker(source_);
  ASSERT_TRUE(marker.add(root_, Deadline::never()));
  std::set<PackId> expected;
  for (const auto& [path, entry] : entries_) {
    for (const ChunkRef& chunk : entry.chunks) expected.insert(chunk.place.pack);
  }
  for (const PackId& pack : expected) EXPECT_TRUE(marker.packs().contains(pack));
  EXPECT_TRUE(marker.packs().contains(root_.frame.place.pack));
  uint64_t reads = marker.frames_read();
  ASSERT_TRUE(marker.add(root_, Deadline::never()));
  EXPECT_EQ(marker.frames_read(), reads);
  ChangeList changes;
  changes.remove("flat/7");
  auto merged = merge(source_, packs_, root_, changes);
  ASSERT_TRUE(merged);
  ASSERT_TRUE(marker.add(merged->root, Deadline::never()));
  EXPECT_LE(marker.frames_read() - reads, 2u * (root_.level + 1u));
  ASSERT_TRUE(marker.add(empty_root(), Deadline::never()));
}

TEST_F(Tree, DamageIsReportedNotReturned) {
  SeededRandom random(24);
  for (int round = 0; round < 60; ++round) {
    MemoryPacks damaged = packs_;
    auto pack = damaged.packs.find(root_.frame.place.pack);
    size_t at = random.below(pack->second.size());
    pack->second[at] ^= static_cast<uint8_t>(1 + random.below(255));
    CachedNodeSource source(damaged, 0);
    Marker marker(source);
    auto status = marker.add(root_, Deadline::never());
    TreeCursor cursor(source, root_, Deadline::never());
    auto walked = cursor.seek("");
    size_t seen = 0;
    while (walked && cursor.valid()) {
      auto it = entries_.find(cursor.entry().path);
      ASSERT_TRUE(it != entries_.end());
      ++seen;
      walked = cursor.next();
    }
    EXPECT_TRUE(!walked || seen == entries_.size());
    if (!walked) {
      EXPECT_FALSE(status);
      EXPECT_FALSE(cursor.valid());
    }
  }
}

// A node that names itself: its level cannot be one lower than its own.
TEST_F(Tree, ACycleEndsAtOnce) {
  NodeBuilder builder(1);
  builder.add_child("a", root_);
  builder.add_child("b", root_);
  Bytes raw = builder.encode().value();
  MemoryPacks packs;
  NodePackWriter writer(packs);
  NodeRef self;
  self.frame = writer.add(raw).value();
  ASSERT_TRUE(writer.finish());
  self.digest = builder.digest();
  self.level = 1;
  self.counts = builder.counts();
  // The child's place is the node's own.
  NodeBuilder looped(1);
  NodeRef child = self;
  child.level = 0;
  looped.add_child("a", child);
  looped.add_child("b", child);
  NodePackWriter again(packs);
  NodeRef top;
  top.frame = again.add(looped.encode().value()).value();
  ASSERT_TRUE(again.finish());
  top.digest = looped.digest();
  top.level = 1;
  top.counts = looped.counts();
  CachedNodeSource source(packs, 1 << 20);
  Marker marker(source);
  EXPECT_EQ(marker.add(top, Deadline::never()).error().code(), Code::kDataCorrupt);
  TreeReader reader(source, top, Deadline::never());
  EXPECT_EQ(reader.counts("a").error().code(), Code::kDataCorrupt);
  EXPECT_EQ(reader.find("b").error().code(), Code::kDataCorrupt);
}

TEST(Roots, RoundTripAndRefuse) {
  EXPECT_EQ(decode_root(encode_root(empty_root())).value(), empty_root());
  SeededRandom random(25);
  RootRef root;
  root.digest = random_digest(random);
  root.level = 3;
  root.counts = {7, 5, ~uint64_t{0}};
  root.frame = {random_digest(random), 5000, {PackId::random(random), 16, 4999}};
  Bytes bytes = encode_root(root);
  EXPECT_EQ(decode_root(bytes).value(), root);
  for (size_t size = 0; size < bytes.size(); ++size) EXPECT_FALSE(decode_root(ByteView(bytes).first(size)));
  bytes.push_back(0);
  EXPECT_FALSE(decode_root(bytes));
  bytes[0] = 9;
  EXPECT_EQ(decode_root(bytes).error().code(), Code::kFormatUnsupported);
}

TEST(CachedNodes, StayWithinTheBound) {
  MemoryPacks packs;
  CachedNodeSource build(packs, 0);
  SeededRandom random(26);
  Reference entries;
  for (int i = 0; i < 20'000; ++i) entries.emplace("f" + std::to_string(i), file("f" + std::to_string(i), random, 1));
  RootRef root = bulk_build(build, packs, entries);
  CachedNodeSource source(packs, 1 << 20);
  read_all(source, root);
  EXPECT_LE(source.stats().cached_bytes, uint64_t{1} << 20);
  EXPECT_GT(source.stats().cached_bytes, uint64_t{1} << 18);
  uint64_t reads = source.stats().reads;
  TreeReader reader(source, root, Deadline::never());
  ASSERT_TRUE(reader.find("f9999"));
  ASSERT_TRUE(reader.find("f9999"));
  EXPECT_LE(source.stats().reads - reads, root.level + 1u);
}

TEST(CachedNodes, ServeManyThreads) {
  MemoryPacks packs;
  CachedNodeSource build(packs, 0);
  SeededRandom random(28);
  Reference entries;
  for (int i = 0; i < 5000; ++i) entries.emplace("f" + std::to_string(i), file("f" + std::to_string(i), random, 1));
  RootRef root = bulk_build(build, packs, entries);
  CachedNodeSource source(packs, 300'000);  // too small for all: nodes come and go
  std::atomic<int> found = 0;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      SeededRandom mine(t);
      TreeReader reader(source, root, Deadline::never());
      for (int i = 0; i < 200; ++i) {
        auto entry = reader.find("f" + std::to_string(mine.below(5000)));
        if (entry && *entry) ++found;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(found, 800);
}

TEST(CachedNodes, ReadFromAnObjectStore) {
  object::MemoryStore objects;
  StoreId store = StoreId::from_bytes(std::array<uint8_t, 16>{1, 2, 3}.data());
  MemoryPacks packs;
  CachedNodeSource build(packs, 0);
  SeededRandom random(29);
  Reference entries;
  for (int i = 0; i < 1000; ++i) entries.emplace("f" + std::to_string(i), file("f" + std::to_string(i), random, 1));
  RootRef root = bulk_build(build, packs, entries);
  ObjectPackReader reader(objects, store);
  CachedNodeSource source(reader, 1 << 20);
  EXPECT_EQ(TreeReader(source, root, Deadline::never()).find("f1").error().code(), Code::kObjectNotFound);
  for (const auto& [id, bytes] : packs.packs) {
    ASSERT_TRUE(objects.put_if_absent(pack_key(store, id), bytes, Deadline::never()));
  }
  EXPECT_EQ(read_all(source, root), entries);
}

TEST(CachedNodes, ListenToTheDeadline) {
  MemoryPacks packs;
  CachedNodeSource source(packs, 0);
  SeededRandom random(27);
  Reference entries;
  entries.emplace("a", file("a", random, 1));
  RootRef root = bulk_build(source, packs, entries);
  CancelToken token;
  Deadline deadline = Deadline::never(token);
  token.cancel();
  EXPECT_EQ(TreeReader(source, root, deadline).find("a").error().code(), Code::kCancelled);
}

}  // namespace
}  // namespace cairn::store
