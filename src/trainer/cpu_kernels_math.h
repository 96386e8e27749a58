// Loading, storing and elementary functions for cpu_kernels_body.h; the same rules hold (internal linkage, no functions of the
// standard library).
#pragma once

#include <cstdint>
#include <cstring>

#include "trainer/cpu_kernels.h"

namespace cairn::trainer {
namespace {

inline float load(const float* p) {
  return *p;
}
inline float load(const Bfloat16* p) {
  uint32_t bits = static_cast<uint32_t>(p->bits) << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}
inline void store(float* p, float value) {
  *p = value;
}
inline void store(Bfloat16* p, float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  p->bits = static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded);
}

// e^x to 2 ulp: e^(n log 2 + r), |r| <= log(2) / 2. Infinite above 88.7; below -87 it stays 1.6e-38.
inline float exponential(float x) {
  float clamped = x < -87.0f ? -87.0f : x;
  clamped = clamped > 89.0f ? 89.0f : clamped;
  // Adding and taking away 1.5 * 2^23 rounds to a whole number.
  const float whole = (clamped * 1.44269504f + 12582912.0f) - 12582912.0f;
  float r = clamped - whole * 0.693359375f;
  r = r + whole * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  // 2^n in two factors, since n may be 128.
  const auto n = static_cast<int32_t>(whole);
  const int32_t half_n = n >> 1;
  const auto half_bits = static_cast<uint32_t>(half_n + 127) << 23, rest_bits = static_cast<uint32_t>(n - half_n + 127)
                                                                                << 23;
  float half, rest;
  std::memcpy(&half, &half_bits, 4);
  std::memcpy(&rest, &rest_bits, 4);
  return p * half * rest;
}

inline float logarithm(float x) {
  return __builtin_logf(x);
}  // of one number a row
inline float sigmoid(float x) {
  return 1.0f / (1.0f + exponential(-x));
}

}  // namespace
}  // namespace cairn::trainer
