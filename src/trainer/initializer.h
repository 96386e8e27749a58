// Random numbers for initial weights that are the same on every machine and for every number of threads.
//
// Numbers 2k and 2k+1 of stream s under seed z come from one Box-Muller pair: u and v are the upper 53 bits, as
// fractions, of mix(key + (2k+1) * G) and mix(key + (2k+2) * G), where mix is SplitMix64's finaliser, G =
// 0x9e3779b97f4a7c15 and key = mix(z + G * (s + 1)); they are r cos(2 pi v) and r sin(2 pi v) with r = sqrt(-2 log(1 -
// u)). Logarithm, sine and cosine are computed here from sums and products of doubles alone, since those of libm differ
// between machines.
#pragma once

#include <cstdint>
#include <span>

namespace cairn::trainer {

// Writes numbers `first`, `first`+1, … of the stream, times `deviation`. REQUIRES: `first` is even.
void fill_normal(uint64_t seed, uint64_t stream, uint64_t first, double deviation, std::span<float> out);

}  // namespace cairn::trainer
