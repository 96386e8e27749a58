#include "store/tree_merge.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "store/mark.h"
#include "store/store_test_support.h"
#include "store/tree_node.h"

namespace cairn::store {
namespace {

using namespace test;

class TreeMerge : public testing::Test {
 protected:
  MemoryPacks packs_;
  CachedNodeSource source_{packs_, 64 << 20};
};

// Entries whose ancestors are all folders: names come from few segments, so that histories meet.
class Histories {
 public:
  Histories(uint64_t seed, uint64_t breadth, bool long_names) : random_(seed), breadth_(breadth), long_names_(long_names) {}

  std::string path() {
    std::string path = "d" + std::to_string(random_.below(4));
    uint64_t depth = random_.below(4);
    for (uint64_t i = 0; i < depth; ++i) {
      path += "/" + std::string(i % 2 == 0 ? "s" : "s-") + std::to_string(random_.below(breadth_));
    }
    if (random_.below(2) == 0) path += "/f" + std::to_string(random_.below(breadth_)) + ".bin";
    if (long_names_) path += "/" + std::string(200, static_cast<char>('a' + random_.below(26)));
    return path;
  }
  Entry entry(std::string path) {
    switch (random_.below(8)) {
      case 0: return symlink(path, "t" + std::to_string(random_.below(5)));
      case 1: return file(path, random_, random_.below(100) == 0 ? 65 + random_.below(3000) : 0);
      case 2: case 3: return directory(path);
      default: return file(path, random_, random_.below(4));
    }
  }
  SeededRandom& random() { return random_; }

 private:
  SeededRandom random_;
  uint64_t breadth_;
  bool long_names_;
};

bool conflicts(const Reference& entries) {
  const Entry* last = nullptr;
  for (const auto& [path, entry] : entries) {
    if (last != nullptr && last->kind != EntryKind::kDirectory && is_under(path, last->path)) return true;
    last = &entry;
  }
  return false;
}

void remove_prefix(Reference& entries, const std::string& prefix) {
  std::erase_if(entries, [&](const auto& item) { return is_at_or_under(item.first, prefix); });
}

// One random changeset, applied to the reference too.
ChangeList random_changes(Histories& histories, Reference& after) {
  SeededRandom& random = histories.random();
  std::set<std::string, PathLess> puts;
  std::set<std::string, PathLess> removes;
  std::set<std::string, PathLess> prefixes;
  uint64_t count = 1 + random.below(random.below(5) == 0 ? 60 : 6);
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t kind = random.below(10);
    std::string path = histories.path();
    if (!after.empty() && random.below(2) == 0) {
      auto it = after.lower_bound(path);
      if (it != after.end()) path = it->first;
    }
    if (kind == 0) {
      prefixes.insert(random.below(3) == 0 ? std::string(path.substr(0, path.find('/'))) : path);
    } else if (kind <= 3) {
      removes.insert(path);
    } else {
      puts.insert(path);
    }
  }
  ChangeList changes;
  for (const auto& path : prefixes) {
    changes.remove_prefix(path);
    remove_prefix(after, path);
  }
  for (const auto& path : removes) {
    if (prefixes.contains(path) || puts.contains(path)) continue;
    changes.remove(path);
    after.erase(path);
  }
  for (const auto& path : puts) {
    Entry entry = histories.entry(path);
    auto it = after.find(path);
    if (it != after.end() && random.below(4) == 0) entry = it->second;  // put again as it is
    changes.put(entry);
    after[path] = entry;
  }
  changes.sort();
  return changes;
}

struct Shape {
  uint64_t breadth;
  bool long_names;
  int histories;
  int steps;
};

class TreeHistories : public TreeMerge, public testing::WithParamInterface<Shape> {};

TEST_P(TreeHistories, EndWithTheTreeOfTheirContent) {
  int conflicting = 0;
  int merged = 0;
  for (int h = 0; h < GetParam().histories; ++h) {
    Histories histories(1000 + static_cast<uint64_t>(h), GetParam().breadth, GetParam().long_names);
    Reference reference;
    // A start of some size, built in one go.
    uint64_t start = histories.random().below(GetParam().breadth * GetParam().breadth * 4);
    for (uint64_t i = 0; i < start; ++i) {
      Reference next = reference;
      std::string path = histories.path();
      auto at = reference.insert_or_assign(path, histories.entry(path)).first;
      bool bad = at != reference.begin() && std::prev(at)->second.kind != EntryKind::kDirectory &&
                 is_under(at->first, std::prev(at)->first);
      auto after = std::next(at);
      bad |= at->second.kind != EntryKind::kDirectory && after != reference.end() && is_under(after->first, at->first);
      for (std::string_view up = parent_path(path); !up.empty() && !bad; up = parent_path(up)) {
        auto parent = reference.find(up);
        bad = parent != reference.end() && parent->second.kind != EntryKind::kDirectory;
      }
      if (bad) reference.erase(at);
    }
    ASSERT_FALSE(conflicts(reference));
    RootRef root = bulk_build(source_, packs_, reference);
    for (int step = 0; step < GetParam().steps; ++step) {
      Reference after = reference;
      ChangeList changes = random_changes(histories, after);
      auto result = merge(source_, packs_, root, changes);
      if (conflicts(after)) {
        ++conflicting;
        ASSERT_FALSE(result) << "history " << h << " step " << step;
        EXPECT_EQ(result.error().code(), Code::kPathTypeConflict);
        continue;
      }
      ASSERT_TRUE(result) << result.error().to_string() << " history " << h << " step " << step;
      ++merged;
      reference = std::move(after);
      root = result->root;
      ASSERT_EQ(root.digest, bulk_build(source_, packs_, reference).digest) << "history " << h << " step " << step;
      ASSERT_EQ(root.counts, counts_of(reference, ""));
    }
    Reference back = read_all(source_, root);
    ASSERT_EQ(back.size(), reference.size());
    for (const auto& [path, entry] : reference) {
      ASSERT_TRUE(back.contains(path));
      const Entry& read = back[path];
      ASSERT_EQ(read.kind, entry.kind);
      ASSERT_EQ(read.size, entry.size);
      ASSERT_EQ(read.chunks.size(), entry.chunks.size());
      for (size_t i = 0; i < entry.chunks.size(); ++i) ASSERT_EQ(read.chunks[i].hash, entry.chunks[i].hash);
    }
  }
  EXPECT_GT(merged, GetParam().histories);
  EXPECT_TRUE(GetParam().long_names || conflicting > 0);
}

INSTANTIATE_TEST_SUITE_P(Shapes, TreeHistories,
                         testing::Values(Shape{3, false, 200, 10}, Shape{12, false, 40, 12}, Shape{40, false, 3, 15},
                                         Shape{30, true, 3, 12}),
                         [](const auto& shape) { return "shape" + std::to_string(shape.index); });

Reference many_files(uint64_t count, uint64_t seed) {
  SeededRandom random(seed);
  Reference entries;
  for (uint64_t i = 0; i < count; ++i) {
    char name[96];
    std::snprintf(name, sizeof name, "datasets/corpus/part-%03d/sample-%07d.jsonl", static_cast<int>(i / 1000),
                  static_cast<int>(i));
    entries.emplace(name, file(name, random, 1));
  }
  return entries;
}

// A path of nearly 4096 bytes that shares little with others: nodes of some twenty items, so high trees from few entries.
std::string long_path(uint64_t number) {
  SeededRandom random(number);
  std::string path;
  for (int i = 0; i < 15; ++i) {
    for (int k = 0; k < 250; ++k) path += static_cast<char>('a' + random.below(26));
    path += '/';
  }
  return path + std::to_string(number);
}

TEST_F(TreeMerge, HighTreesGrowAndShrinkLikeBulkBuilds) {
  SeededRandom random(31);
  std::vector<std::string> names;
  for (uint64_t i = 0; i < 1500; ++i) names.push_back(long_path(i));
  std::sort(names.begin(), names.end(), PathLess());
  Reference reference;
  RootRef root = empty_root();
  uint8_t highest = 0;
  for (int step = 0; step < 60; ++step) {
    Reference after = reference;
    // A stretch of names comes or goes, often one that ends at the very right or starts at the very left.
    size_t begin = random.below(4) == 0 ? 0 : random.below(names.size());
    size_t end = random.below(3) == 0 ? names.size() : begin + 1 + random.below(random.below(3) == 0 ? 1200 : 8);
    bool removes = random.below(2) == 0;
    for (size_t i = begin; i < std::min(end, names.size()); ++i) {
      if (removes) {
        after.erase(names[i]);
      } else if (!after.contains(names[i]) || random.below(4) == 0) {
        after[names[i]] = directory(names[i]);
        after[names[i]].mtime_ns = static_cast<int64_t>(random.below(1000));
      }
    }
    ChangeList changes;
    for (const std::string& name : names) {
      auto it = after.find(name);
      if (it == after.end()) {
        if (!reference.contains(name)) continue;
        if (random.below(2) == 0) {
          changes.remove(name);
        } else {
          changes.remove_prefix(name.substr(0, name.find('/')));
        }
      } else if (!reference.contains(name) || !(reference[name] == it->second)) {
        changes.put(it->second);
      }
    }
    auto result = merge(source_, packs_, root, changes);
    ASSERT_TRUE(result) << result.error().to_string();
    reference = std::move(after);
    root = result->root;
    highest = std::max(highest, root.level);
    ASSERT_EQ(root.digest, bulk_build(source_, packs_, reference).digest) << "step " << step;
    ASSERT_EQ(read_all(source_, root).size(), reference.size());
  }
  EXPECT_GE(highest, 2);
}

// Counts what is read from the packs.
TEST_F(TreeMerge, OneChangeCostsThreeTimesTheHeight) {
  Reference entries = many_files(100'000, 9);
  RootRef base = bulk_build(source_, packs_, entries);
  uint64_t height = base.level + 1u;
  EXPECT_GE(height, 3u);
  SeededRandom random(10);
  uint64_t reads = 0;
  uint64_t writes = 0;
  constexpr int kTrials = 60;
  for (int trial = 0; trial < kTrials; ++trial) {
    auto it = std::next(entries.begin(), static_cast<ptrdiff_t>(random.below(entries.size())));
    ChangeList changes;
    Reference after;
    switch (trial % 3) {
      case 0: changes.put(file(it->first, random, 1)); break;
      case 1: changes.remove(it->first); break;
      default: changes.put(file(it->first + "x", random, 1)); break;
    }
    CachedNodeSource cold(packs_, 0);
    auto result = merge(cold, packs_, base, changes);
    ASSERT_TRUE(result);
    reads += cold.stats().reads;
    writes += result->nodes_written;
    EXPECT_LE(cold.stats().reads, 6 * height) << trial;
    EXPECT_LE(result->nodes_written, 6 * height) << trial;
  }
  RecordProperty("reads_per_change", std::to_string(static_cast<double>(reads) / kTrials));
  RecordProperty("writes_per_change", std::to_string(static_cast<double>(writes) / kTrials));
  EXPECT_LE(reads, 3 * height * kTrials);
  EXPECT_LE(writes, 3 * height * kTrials);
}

TEST_F(TreeMerge, ADeletedFolderIsNotRead) {
  Reference entries = many_files(60'000, 11);
  RootRef base = bulk_build(source_, packs_, entries);
  ChangeList changes;
  changes.remove_prefix("datasets/corpus/part-010");
  changes.remove_prefix("datasets/corpus/part-011");
  changes.remove_prefix("datasets/corpus/part-012");
  remove_prefix(entries, "datasets/corpus/part-010");
  remove_prefix(entries, "datasets/corpus/part-011");
  remove_prefix(entries, "datasets/corpus/part-012");
  CachedNodeSource cold(packs_, 0);
  auto result = merge(cold, packs_, base, changes);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->entries_removed, 3000u);
  EXPECT_LE(cold.stats().reads, 20u);
  EXPECT_EQ(result->root.digest, bulk_build(source_, packs_, entries).digest);
  ChangeList all;
  all.remove_prefix("datasets");
  auto empty = merge(source_, packs_, base, all);
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->root, empty_root());
  EXPECT_TRUE(empty->packs_named_by_new_nodes.empty());
}

TEST_F(TreeMerge, PuttingTheSameAgainChangesNothing) {
  SeededRandom random(12);
  Reference entries = many_files(3000, 12);
  entries.emplace("big", file("big", random, 500));
  RootRef base = bulk_build(source_, packs_, entries);
  ChangeList changes;
  for (auto& [path, entry] : entries) {
    Entry moved = entry;
    for (ChunkRef& chunk : moved.chunks) chunk.place.offset += 100;
    changes.put(moved);
  }
  auto same = merge(source_, packs_, base, changes);
  ASSERT_TRUE(same);
  EXPECT_EQ(same->root, base);
  EXPECT_EQ(same->nodes_written, 0u);
  EXPECT_EQ(same->entries_put, 0u);
  EXPECT_TRUE(same->packs_named_by_new_nodes.empty());

  changes.rewind();
  MergeOptions repair;
  repair.keep_base_places = false;
  auto moved = merge(source_, packs_, base, changes, repair);
  ASSERT_TRUE(moved);
  EXPECT_EQ(moved->root.digest, base.digest);
  EXPECT_NE(moved->root.frame, base.frame);
  TreeReader reader(source_, moved->root, Deadline::never());
  EXPECT_EQ(reader.find("big").value()->chunk_count, 500u);
  EXPECT_EQ(read_all(source_, moved->root)["big"].chunks[7].place.offset, entries["big"].chunks[7].place.offset + 100);
}

// F1: base packs + named packs hold everything the new root needs.
TEST_F(TreeMerge, NamesEveryPackItsNewNodesNeed) {
  SeededRandom random(13);
  Reference entries;
  for (int i = 0; i < 3000; ++i) {
    std::string path = "f" + std::to_string(i);
    entries.emplace(path, file(path, random, 2));
  }
  RootRef base = bulk_build(source_, packs_, entries);
  Marker base_marks(source_);
  ASSERT_TRUE(base_marks.add(base, Deadline::never()));
  ChangeList changes;
  Entry small = file("f17", random, 1);
  small.chunks[0].place.pack = PackId::random(random);
  Entry large = file("f2000", random, 1000);
  for (ChunkRef& chunk : large.chunks) chunk.place.pack = PackId::random(random);
  changes.put(small);
  changes.put(large);
  changes.sort();
  auto result = merge(source_, packs_, base, changes);
  ASSERT_TRUE(result) << result.error().to_string();
  Marker marks(source_);
  ASSERT_TRUE(marks.add(result->root, Deadline::never()));
  std::set<PackId> named(result->packs_named_by_new_nodes.begin(), result->packs_named_by_new_nodes.end());
  EXPECT_EQ(named.size(), result->packs_named_by_new_nodes.size());
  for (const PackId& pack : marks.packs()) EXPECT_TRUE(base_marks.packs().contains(pack) || named.contains(pack));
  EXPECT_TRUE(named.contains(small.chunks[0].place.pack));
  for (const ChunkRef& chunk : large.chunks) EXPECT_TRUE(named.contains(chunk.place.pack));
  // What is named was needed: nothing is touched for nothing.
  for (const PackId& pack : named) EXPECT_TRUE(marks.packs().contains(pack));
}

TEST_F(TreeMerge, ConflictsNameBothPaths) {
  SeededRandom random(14);
  Reference entries;
  entries.emplace("a", file("a", random, 1));
  entries.emplace("d/x", file("d/x", random, 1));
  entries.emplace("l", symlink("l", "d"));
  RootRef base = bulk_build(source_, packs_, entries);
  auto refused = [&](Entry entry, std::string_view upper, std::string_view lower) {
    ChangeList changes;
    changes.put(entry);
    auto result = merge(source_, packs_, base, changes);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), Code::kPathTypeConflict);
    EXPECT_NE(result.error().message().find("'" + std::string(upper) + "'"), std::string::npos);
    EXPECT_NE(result.error().message().find("'" + std::string(lower) + "'"), std::string::npos);
  };
  refused(file("a/b/c", random, 0), "a", "a/b/c");
  refused(file("d", random, 0), "d", "d/x");
  refused(directory("l/z"), "l", "l/z");
  // With the old entry removed in the same changeset both ways work.
  ChangeList changes;
  changes.remove("a");
  changes.put(file("a/b", random, 0));
  changes.remove_prefix("d");
  changes.put(file("d", random, 1));
  auto result = merge(source_, packs_, base, changes);
  ASSERT_TRUE(result) << result.error().to_string();
  EXPECT_EQ(read_all(source_, result->root).size(), 3u);
}

class RefusingChecker final : public PlaceChecker {
 public:
  Status check(const ChunkRef& chunk) override {
    ++checked;
    return chunk.hash == refused ? Status(Error(Code::kChunksGone, "gone")) : ok();
  }
  Digest refused;
  uint64_t checked = 0;
};

TEST_F(TreeMerge, EveryPlaceOfAChangesetIsChecked) {
  SeededRandom random(15);
  Reference entries = many_files(2000, 15);
  RootRef base = bulk_build(source_, packs_, entries);
  ChangeList changes;
  Entry small = file("a", random, 3);
  Entry large = file("b", random, 300);
  changes.put(small);
  changes.put(large);
  RefusingChecker checker;
  ASSERT_TRUE(merge(source_, packs_, base, changes, {}, &checker));
  EXPECT_EQ(checker.checked, 303u);
  size_t before = packs_.packs.size();
  for (const Digest& hash : {small.chunks[2].hash, large.chunks[299].hash}) {
    checker.refused = hash;
    changes.rewind();
    EXPECT_EQ(merge(source_, packs_, base, changes, {}, &checker).error().code(), Code::kChunksGone);
  }
  EXPECT_EQ(packs_.packs.size(), before);
}

TEST_F(TreeMerge, ListsAreTakenOverOnTheServer) {
  SeededRandom random(16);
  Reference entries;
  entries.emplace("a", file("a", random, 5000));
  RootRef base = bulk_build(source_, packs_, entries);
  Entry moved = TreeReader(source_, base, Deadline::never()).find("a").value().value();
  ASSERT_TRUE(moved.list);
  moved.path = "b";
  ChangeList changes;
  changes.remove("a");
  changes.put(moved);
  auto result = merge(source_, packs_, base, changes);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->lists_written, 0u);
  EXPECT_EQ(read_all(source_, result->root)["b"].chunks, entries["a"].chunks);
}

TEST_F(TreeMerge, LongListsDependOnContentOnly) {
  SeededRandom random(17);
  Entry huge = file("huge", random, 300'000);
  Reference entries;
  entries.emplace("huge", huge);
  RootRef root = bulk_build(source_, packs_, entries);
  EXPECT_EQ(read_all(source_, root)["huge"], huge);
  Entry zeros = huge;
  zeros.path = "zeros";
  for (ChunkRef& chunk : zeros.chunks) chunk = zeros.chunks[0];
  zeros.size = zeros.chunk_count * zeros.chunks[0].raw_len;
  entries.emplace("zeros", zeros);
  ChangeList changes;
  changes.put(zeros);
  auto result = merge(source_, packs_, root, changes);
  ASSERT_TRUE(result) << result.error().to_string();
  EXPECT_EQ(result->root.digest, bulk_build(source_, packs_, entries).digest);
  EXPECT_EQ(read_all(source_, result->root)["zeros"], zeros);
  Entry view = TreeReader(source_, result->root, Deadline::never()).find("huge").value().value();
  for (uint64_t from : {0u, 1u, 4095u, 77'777u, 299'999u, 300'000u}) {
    ChunkCursor cursor(source_, view, Deadline::never(), from);
    auto chunks = cursor.next();
    ASSERT_TRUE(chunks);
    if (from == 300'000) {
      EXPECT_TRUE(chunks->empty());
    } else {
      EXPECT_EQ(chunks->front(), huge.chunks[from]);
    }
  }
}

TEST_F(TreeMerge, BadChangesAreRefused) {
  SeededRandom random(18);
  auto code = [&](auto fill) {
    ChangeList changes;
    fill(changes);
    auto result = merge(source_, packs_, empty_root(), changes);
    EXPECT_FALSE(result);
    return result ? Code::kInternal : result.error().code();
  };
  Entry good = file("b", random, 2);
  EXPECT_EQ(code([&](ChangeList& c) { c.put(good); c.put(file("a", random, 0)); }), Code::kChangesetInvalid);
  EXPECT_EQ(code([&](ChangeList& c) { c.put(good); c.put(good); }), Code::kChangesetInvalid);
  EXPECT_EQ(code([&](ChangeList& c) { c.put(directory("a/..")); }), Code::kPathInvalid);
  Entry bad = good;
  bad.size -= 1;
  EXPECT_EQ(code([&](ChangeList& c) { c.put(bad); }), Code::kChangesetInvalid);
  bad = good;
  bad.chunk_count = 1;
  EXPECT_EQ(code([&](ChangeList& c) { c.put(bad); }), Code::kChangesetInvalid);
  bad = good;
  bad.chunk_count = 3;
  EXPECT_EQ(code([&](ChangeList& c) { c.put(bad); }), Code::kChangesetInvalid);
  MergeOptions options;
  options.entries_max = 10;
  Reference entries = many_files(11, 1);
  ChangeList many;
  for (auto& [path, entry] : entries) many.put(entry);
  EXPECT_EQ(merge(source_, packs_, empty_root(), many, options).error().code(), Code::kLimitExceeded);
}

TEST_F(TreeMerge, SurvivesGrindedAndLongPaths) {
  SeededRandom random(19);
  // Paths near 4096 bytes and targets near 4095: few items a node.
  Reference entries;
  for (int i = 0; i < 400; ++i) {
    std::string path;
    for (int k = 0; k < 15; ++k) path += std::string(250, static_cast<char>('a' + random.below(26))) + "/";
    path += std::to_string(i);
    entries.emplace(path, symlink(path, std::string(4000, 't')));
  }
  RootRef root = bulk_build(source_, packs_, entries);
  EXPECT_EQ(read_all(source_, root).size(), entries.size());
  EXPECT_LE(root.level, limits::kTreeHeightMax);
  // Names that all end a node as soon as one may end.
  Reference ground;
  for (uint64_t i = 0; ground.size() < 2000; ++i) {
    std::string path = "g" + std::to_string(i);
    if (is_node_boundary(0, path, 16, 0, 0)) ground.emplace(path, directory(path));
  }
  root = bulk_build(source_, packs_, ground);
  EXPECT_LE(root.level, 3);
  EXPECT_EQ(read_all(source_, root).size(), ground.size());
}

}  // namespace
}  // namespace cairn::store
