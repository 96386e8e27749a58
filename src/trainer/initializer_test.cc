#include "trainer/initializer.h"

#include <bit>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace cairn::trainer {
namespace {

std::vector<float> normal(uint64_t seed, uint64_t stream, uint64_t first, size_t count, double deviation = 1) {
  std::vector<float> out(count);
  fill_normal(seed, stream, first, deviation, out);
  return out;
}

// The definition of the header, with libm's functions.
double expected(uint64_t seed, uint64_t stream, uint64_t index) {
  auto mix = [](uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  };
  const uint64_t g = 0x9e3779b97f4a7c15, key = mix(seed + g * (stream + 1)), even = index / 2 * 2;
  double u = std::ldexp(static_cast<double>(mix(key + (even + 1) * g) >> 11), -53);
  double v = std::ldexp(static_cast<double>(mix(key + (even + 2) * g) >> 11), -53);
  double r = std::sqrt(-2 * std::log(1 - u)), angle = 2 * 3.14159265358979323846 * v;
  return index % 2 == 0 ? r * std::cos(angle) : r * std::sin(angle);
}

TEST(Initializer, IsTheDocumentedGenerator) {
  for (uint64_t stream : {0u, 1u, 77u}) {
    auto values = normal(42, stream, 0, 20001);
    for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], expected(42, stream, i), 2e-6) << i;
  }
}

// The exact bits, which must be the same on every machine.
TEST(Initializer, BitsAreFixed) {
  uint64_t hash = 1469598103934665603;
  for (float value : normal(1, 2, 0, 100000, 0.02)) hash = (hash ^ std::bit_cast<uint32_t>(value)) * 1099511628211;
  EXPECT_EQ(hash, 8064800586029517751u);
}

TEST(Initializer, PartsAreThoseOfTheWhole) {
  auto whole = normal(5, 9, 0, 1001);
  for (size_t first : {size_t{0}, size_t{2}, size_t{500}, size_t{1000}}) {
    auto part = normal(5, 9, first, whole.size() - first);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + static_cast<long>(first))) << first;
  }
}

TEST(Initializer, HasTheMomentsOfANormalDistribution) {
  auto values = normal(3, 4, 0, 1 << 20);
  double sum = 0, squares = 0, fourth = 0, beyond = 0;
  for (double value : values) {
    sum += value;
    squares += value * value;
    fourth += value * value * value * value;
    beyond += std::abs(value) > 3 ? 1 : 0;
  }
  const double n = static_cast<double>(values.size());
  EXPECT_NEAR(sum / n, 0, 0.005);
  EXPECT_NEAR(squares / n, 1, 0.01);
  EXPECT_NEAR(fourth / n, 3, 0.06);
  EXPECT_NEAR(beyond / n, 0.0027, 0.0003);
  EXPECT_NE(normal(3, 5, 0, 8), normal(3, 4, 0, 8));
  EXPECT_NE(normal(4, 4, 0, 8), normal(3, 4, 0, 8));
}

}  // namespace
}  // namespace cairn::trainer
