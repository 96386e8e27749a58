#include "store/chunker.h"

#include <algorithm>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "codec/digest.h"

namespace cairn::store {
namespace {

using codec::Bytes;
using codec::ByteView;

// docs/formats/chunk.md in its plainest words.
size_t reference_cut(ByteView data) {
  if (data.size() <= 256 * 1024) return data.size();
  uint64_t hash = 0;
  for (size_t i = 0; i < data.size(); ++i) {
    hash = (hash << 1) + gear_table()[data[i]];
    size_t length = i + 1;
    if (length <= 256 * 1024) continue;
    if (length == 4 * 1024 * 1024) return length;
    int bits = length <= 1024 * 1024 ? 22 : 18;
    if (hash >> (64 - bits) == 0) return length;
  }
  return data.size();
}

std::vector<size_t> cuts(ByteView data) {
  std::vector<size_t> lengths;
  Chunker chunker;
  while (!data.empty()) {
    lengths.push_back(chunker.next_cut(data, true));
    data = data.subspan(lengths.back());
  }
  return lengths;
}

Bytes random_bytes(size_t size, uint64_t seed) {
  Bytes data(size);
  SeededRandom(seed).fill(data);
  return data;
}

TEST(Chunker, GearTableIsTheDocumentedOne) {
  EXPECT_EQ(gear_table()[0], 0x6e789e6aa1b965f4u);
  EXPECT_EQ(gear_table()[1], 0x06c45d188009454fu);
  EXPECT_EQ(std::set<uint64_t>(gear_table().begin(), gear_table().end()).size(), 256u);
}

TEST(Chunker, AgreesWithTheScalarReference) {
  Bytes data = random_bytes(48 << 20, 11);
  // Stretches of text-like and constant bytes too.
  for (size_t i = 9 << 20; i < 18 << 20; ++i) data[i] = static_cast<uint8_t>('a' + data[i] % 26);
  std::fill(data.begin() + (20 << 20), data.begin() + (30 << 20), uint8_t{0});
  ByteView rest(data);
  std::vector<size_t> expected;
  while (!rest.empty()) {
    expected.push_back(reference_cut(rest));
    rest = rest.subspan(expected.back());
  }
  EXPECT_EQ(cuts(data), expected);
  EXPECT_GT(expected.size(), 20u);
}

TEST(Chunker, HoldsItsBounds) {
  EXPECT_TRUE(cuts({}).empty());
  Bytes data = random_bytes(40 << 20, 5);
  EXPECT_EQ(cuts(ByteView(data).first(1)), std::vector<size_t>{1});
  EXPECT_EQ(cuts(ByteView(data).first(256 << 10)), std::vector<size_t>{256 << 10});
  auto lengths = cuts(data);
  for (size_t i = 0; i + 1 < lengths.size(); ++i) {
    EXPECT_GT(lengths[i], Chunker::kMin);
    EXPECT_LE(lengths[i], Chunker::kMax);
  }
  double mean = static_cast<double>(data.size()) / static_cast<double>(lengths.size());
  EXPECT_GT(mean, 0.8e6);
  EXPECT_LT(mean, 1.8e6);
  EXPECT_EQ(cuts(Bytes(9 << 20)), (std::vector<size_t>{4 << 20, 4 << 20, 1 << 20}));
}

TEST(Chunker, StreamingGivesTheSameCuts) {
  Bytes data = random_bytes(12 << 20, 6);
  Chunker chunker;
  std::vector<size_t> lengths;
  size_t start = 0;
  size_t available = 0;
  SeededRandom random(3);
  while (start < data.size()) {
    size_t n = chunker.next_cut(ByteView(data).subspan(start, available), start + available == data.size());
    if (n == 0) {
      available = std::min(available + 1 + random.below(700'000), data.size() - start);
      continue;
    }
    lengths.push_back(n);
    start += n;
    available -= n;
  }
  EXPECT_EQ(lengths, cuts(data));
}

TEST(Chunker, AnInsertionMovesFewChunks) {
  Bytes data = random_bytes(32 << 20, 7);
  auto hashes = [](ByteView bytes) {
    std::multiset<codec::Digest> all;
    for (size_t n : cuts(bytes)) {
      all.insert(codec::sha256(bytes.first(n)));
      bytes = bytes.subspan(n);
    }
    return all;
  };
  auto before = hashes(data);
  Bytes inserted = random_bytes(1 << 20, 8);
  data.insert(data.begin() + (16 << 20) + 12345, inserted.begin(), inserted.end());
  size_t fresh = 0;
  for (const auto& hash : hashes(data)) fresh += !before.contains(hash);
  EXPECT_LE(fresh, 5u);
}

}  // namespace
}  // namespace cairn::store
