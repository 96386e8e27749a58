#include "dataset/permutation.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"

namespace cairn::dataset {
namespace {

std::vector<uint64_t> all_of(const Permutation& order) {
  std::vector<uint64_t> places;
  for (uint64_t i = 0; i < order.size(); ++i) places.push_back(order.at(i));
  return places;
}

void expect_bijection(uint64_t size, uint64_t key) {
  std::vector<uint64_t> places = all_of(Permutation(size, key));
  std::sort(places.begin(), places.end());
  for (uint64_t i = 0; i < size; ++i) ASSERT_EQ(places[i], i) << "size " << size << " key " << key;
}

TEST(Permutation, EqualsTheVectorsOfTheDocument) {
  std::ifstream file(CAIRN_SOURCE_DIR "/tests/golden/formats/permutation.txt");
  std::string line;
  int lines = 0;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    uint64_t size = 0, seed = 0, epoch = 0, expected = 0;
    words >> size >> seed >> epoch;
    Permutation order(size, Permutation::key_of(seed, epoch));
    uint64_t place = 0;
    for (; words >> expected; ++place) EXPECT_EQ(order.at(place), expected) << line;
    EXPECT_EQ(place, std::min<uint64_t>(8, size));
    ++lines;
  }
  EXPECT_EQ(lines, 48);
}

TEST(Permutation, IsABijectionForEverySize) {
  for (uint64_t size = 1; size <= 600; ++size) expect_bijection(size, size * 31);
  SeededRandom random(11);
  for (int i = 0; i < 10; ++i) expect_bijection(1 + random.below(100'000), random.next_u64());
}

TEST(Permutation, EpochsAndSeedsDiffer) {
  std::vector<uint64_t> first = all_of(Permutation(1000, Permutation::key_of(0, 0)));
  EXPECT_EQ(first, all_of(Permutation(1000, Permutation::key_of(0, 0))));
  EXPECT_NE(first, all_of(Permutation(1000, Permutation::key_of(0, 1))));
  EXPECT_NE(first, all_of(Permutation(1000, Permutation::key_of(1, 0))));
}

// Not a proof of randomness; a network of too few rounds or keys that do nothing fails it at once.
TEST(Permutation, OrdersOfFewThingsAllHappen) {
  std::map<std::vector<uint64_t>, int> seen;
  for (uint64_t seed = 0; seed < 2400; ++seed) ++seen[all_of(Permutation(4, Permutation::key_of(seed, 0)))];
  EXPECT_EQ(seen.size(), 24u);
  for (const auto& [order, times] : seen) {
    EXPECT_GT(times, 50);
    EXPECT_LT(times, 160);
  }
}

TEST(Permutation, NeighboursPartAndGoAnywhere) {
  constexpr uint64_t kSize = 1'000'000;
  Permutation order(kSize, Permutation::key_of(3, 0));
  uint64_t near = 0, upper = 0;
  for (uint64_t i = 0; i + 1 < 20'000; ++i) {
    uint64_t a = order.at(i), b = order.at(i + 1);
    near += std::max(a, b) - std::min(a, b) < kSize / 100;
    upper += a >= kSize / 2;
  }
  EXPECT_LT(near, 600u);  // two in a hundred by chance
  EXPECT_GT(upper, 9'500u);
  EXPECT_LT(upper, 10'500u);
}

}  // namespace
}  // namespace cairn::dataset
