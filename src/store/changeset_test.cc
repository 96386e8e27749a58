#include "store/changeset.h"

#include <gtest/gtest.h>

#include "store/store_test_support.h"

namespace cairn::store {
namespace {

using namespace test;

struct Item {
  Change::Kind kind;
  Entry entry;
  uint64_t first_chunk = 0;
  bool operator==(const Item&) const = default;
};

Status write(ChangesetWriter& writer, const Item& item) {
  switch (item.kind) {
    case Change::Kind::kPut:
      CAIRN_CHECK_OK(writer.put(item.entry, item.first_chunk));
      return writer.add_chunks(item.entry.chunks);
    case Change::Kind::kDelete: return writer.remove(item.entry.path);
    case Change::Kind::kDeletePrefix: return writer.remove_prefix(item.entry.path);
  }
  return ok();
}

Bytes encode(const std::vector<Item>& items, ChangesetMode mode = ChangesetMode::kChangeset) {
  BytesSink sink;
  ChangesetWriter writer(sink, mode);
  for (const Item& item : items) {
    auto status = write(writer, item);
    EXPECT_TRUE(status) << status.error().to_string();
  }
  auto status = writer.finish();
  EXPECT_TRUE(status) << status.error().to_string();
  return sink.take();
}

Result<std::vector<Item>> decode(ByteView bytes, ChangesetMode mode = ChangesetMode::kChangeset) {
  BytesSource source(bytes);
  ChangesetReader reader(source, mode);
  std::vector<Item> items;
  Change change;
  for (;;) {
    CAIRN_TRY(bool more, reader.next(change));
    if (!more) return items;
    items.push_back({change.kind, change.entry, change.first_chunk});
    for (;;) {
      CAIRN_TRY(auto chunks, reader.next_chunks());
      if (chunks.empty()) break;
      auto& all = items.back().entry.chunks;
      all.insert(all.end(), chunks.begin(), chunks.end());
    }
  }
}

Item removal(Change::Kind kind, std::string path) {
  Entry entry;
  entry.path = std::move(path);
  return {kind, entry};
}

std::vector<Item> some_items(SeededRandom& random) {
  return {{Change::Kind::kPut, directory("a")},
          {Change::Kind::kPut, file("a/big", random, 9000)},
          {Change::Kind::kPut, file("a/empty", random, 0)},
          {Change::Kind::kPut, symlink("a/link", "../x")},
          removal(Change::Kind::kDelete, "a-b"),
          removal(Change::Kind::kDeletePrefix, "dir"),
          {Change::Kind::kPut, file("dir", random, 1)},
          removal(Change::Kind::kDeletePrefix, "\xff\xfe"),
          {Change::Kind::kPut, file("\xff\xfe/z", random, 3)}};
}

TEST(Changeset, RoundTrips) {
  SeededRandom random(1);
  auto items = some_items(random);
  auto back = decode(encode(items));
  ASSERT_TRUE(back) << back.error().to_string();
  EXPECT_EQ(*back, items);
  EXPECT_TRUE(decode(encode({})).value().empty());
}

TEST(Changeset, ManyBlocks) {
  SeededRandom random(2);
  std::vector<Item> items;
  for (int i = 0; i < 30'000; ++i) {
    char name[64];
    std::snprintf(name, sizeof name, "train/part-%02d/sample-%07d.jsonl", i / 500, i);
    items.push_back({Change::Kind::kPut, file(name, random, 1)});
  }
  Bytes bytes = encode(items);
  auto back = decode(bytes);
  ASSERT_TRUE(back) << back.error().to_string();
  EXPECT_EQ(*back, items);
  BytesSource source(bytes);
  ChangesetReader bounded(source, ChangesetMode::kChangeset, 100'000);
  Change change;
  auto more = bounded.next(change);
  while (more && *more) more = bounded.next(change);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code(), Code::kLimitExceeded);
}

TEST(Changeset, ListingsMayCutAFile) {
  SeededRandom random(3);
  Entry big = file("a/big", random, 100);
  Entry middle = big;
  middle.chunks.assign(big.chunks.begin() + 20, big.chunks.end());
  std::vector<Item> items = {{Change::Kind::kPut, middle, 20}, {Change::Kind::kPut, file("b", random, 5)}};
  items.back().entry.chunks.pop_back();
  auto back = decode(encode(items, ChangesetMode::kListing), ChangesetMode::kListing);
  ASSERT_TRUE(back) << back.error().to_string();
  EXPECT_EQ(*back, items);
  EXPECT_FALSE(decode(encode(items, ChangesetMode::kListing), ChangesetMode::kChangeset));
  EXPECT_EQ(decode(encode({}), ChangesetMode::kListing).error().code(), Code::kDataCorrupt);
}

TEST(Changeset, AListingHasFoldersOnlyAboveEntries) {
  SeededRandom random(6);
  std::vector<Item> items = {{Change::Kind::kPut, symlink("a", "/root")}, {Change::Kind::kPut, file("a/x", random, 0)}};
  EXPECT_EQ(decode(encode(items, ChangesetMode::kListing), ChangesetMode::kListing).error().code(), Code::kDataCorrupt);
  EXPECT_TRUE(decode(encode(items)));  // merge refuses it, by name
  items[0].entry = directory("a");
  EXPECT_TRUE(decode(encode(items, ChangesetMode::kListing), ChangesetMode::kListing));
}

TEST(Changeset, WriterRefusesWhatReadersWould) {
  SeededRandom random(4);
  auto refused = [&](std::vector<Item> items) {
    BytesSink sink;
    ChangesetWriter writer(sink);
    Status status = ok();
    for (const Item& item : items) {
      if (status) status = write(writer, item);
    }
    if (status) status = writer.finish();
    return !status && !writer.finish();  // and stays failed
  };
  Item a{Change::Kind::kPut, file("a", random, 2)};
  Item b{Change::Kind::kPut, file("b", random, 2)};
  EXPECT_FALSE(refused({a, b}));
  EXPECT_TRUE(refused({b, a}));
  EXPECT_TRUE(refused({a, a}));
  EXPECT_TRUE(refused({a, removal(Change::Kind::kDelete, "a")}));
  EXPECT_TRUE(refused({removal(Change::Kind::kDelete, "a"), a}));
  EXPECT_TRUE(refused({removal(Change::Kind::kDeletePrefix, "a"), removal(Change::Kind::kDeletePrefix, "a")}));
  EXPECT_TRUE(refused({removal(Change::Kind::kDelete, "a/../b")}));
  Item wrong = a;
  wrong.entry.size += 1;
  EXPECT_TRUE(refused({wrong}));
  wrong = a;
  wrong.entry.chunks.pop_back();
  EXPECT_TRUE(refused({wrong}));
  wrong = a;
  wrong.entry.mode = 0100644;
  EXPECT_TRUE(refused({wrong}));
  wrong = a;
  wrong.first_chunk = 1;
  EXPECT_TRUE(refused({wrong}));
}

TEST(Changeset, DamageIsFound) {
  SeededRandom random(5);
  std::vector<Item> items = {{Change::Kind::kPut, file("a", random, 2)}, removal(Change::Kind::kDelete, "b")};
  Bytes bytes = encode(items);
  for (size_t i = 0; i < bytes.size() * 8; ++i) {
    Bytes bad = bytes;
    bad[i / 8] ^= static_cast<uint8_t>(1 << i % 8);
    EXPECT_FALSE(decode(bad)) << "bit " << i;
  }
  for (size_t size = 0; size < bytes.size(); ++size) EXPECT_FALSE(decode(ByteView(bytes).first(size)));
  bytes.push_back(0);
  EXPECT_FALSE(decode(bytes));
}

class FailingSink final : public ByteSink {
 public:
  Status write(ByteView) override {
    ++calls;
    return Error(Code::kNoSpaceLeft, "full");
  }
  int calls = 0;
};

TEST(Changeset, AFailedSinkIsNotCalledAgain) {
  FailingSink sink;
  ChangesetWriter writer(sink);
  EXPECT_EQ(writer.remove("a").error().code(), Code::kNoSpaceLeft);
  EXPECT_EQ(writer.remove("b").error().code(), Code::kNoSpaceLeft);
  EXPECT_EQ(writer.finish().error().code(), Code::kNoSpaceLeft);
  EXPECT_EQ(sink.calls, 1);
}

}  // namespace
}  // namespace cairn::store
