#include "trainer/initializer.h"

#include <bit>
#include <cmath>

#include "base/check.h"

namespace cairn::trainer {
namespace {

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;

uint64_t mix(uint64_t z) {
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

double fraction(uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

// For 0 < x <= 1: x = m 2^e with m near 1, log m as the series of 2 artanh((m-1)/(m+1)).
double portable_log(double x) {
  auto bits = std::bit_cast<uint64_t>(x);
  auto exponent = static_cast<int64_t>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xfffffffffffff) | 0x3ff0000000000000);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  double s = (m - 1) / (m + 1), square = s * s, sum = 0;
  for (int k = 23; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
  return 2 * s * sum + static_cast<double>(exponent) * 0.6931471805599453;
}

// Sine and cosine of 2 pi v for 0 <= v < 1, from their series on an eighth of the circle.
void portable_sincos(double v, double& sine, double& cosine) {
  double turn = v * 4;
  int quarter = static_cast<int>(turn + 0.5);
  double x = (turn - quarter) * 1.5707963267948966, square = x * x;
  double s = 0, c = 0;
  for (int k = 17; k >= 3; k -= 2) s = (s + 1) * -square / (k * (k - 1));
  for (int k = 18; k >= 2; k -= 2) c = (c + 1) * -square / (k * (k - 1));
  s = x * (s + 1);
  c += 1;
  switch (quarter & 3) {
    case 0: sine = s, cosine = c; break;
    case 1: sine = c, cosine = -s; break;
    case 2: sine = -s, cosine = -c; break;
    case 3: sine = -c, cosine = s; break;
  }
}

}  // namespace

void fill_normal(uint64_t seed, uint64_t stream, uint64_t first, double deviation, std::span<float> out) {
  CAIRN_CHECK(first % 2 == 0);
  const uint64_t key = mix(seed + kGolden * (stream + 1));
  for (size_t i = 0; i < out.size(); i += 2) {
    uint64_t counter = first + i;
    double radius = std::sqrt(-2 * portable_log(1 - fraction(mix(key + (counter + 1) * kGolden))));
    double sine = 0, cosine = 0;
    portable_sincos(fraction(mix(key + (counter + 2) * kGolden)), sine, cosine);
    out[i] = static_cast<float>(deviation * (radius * cosine));
    if (i + 1 < out.size()) out[i + 1] = static_cast<float>(deviation * (radius * sine));
  }
}

}  // namespace cairn::trainer
