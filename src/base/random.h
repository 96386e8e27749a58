// Random bytes and numbers. SystemRandom is the kernel's generator (for ids, secrets and keys); SeededRandom is a documented
// generator (xoshiro256**, seeded by splitmix64; test vectors in random_test.cc) whose sequence is the same on every machine
// and compiler, for tests, the simulator and anything reproducible. Nothing reproducible may use std::*_distribution.
//
// SystemRandom is thread-safe; SeededRandom is not.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace cairn {

class Random {
 public:
  virtual ~Random() = default;
  virtual uint64_t next_u64() = 0;
  virtual void fill(std::span<uint8_t> out) = 0;
  // Uniform in [0, bound), without modulo bias. REQUIRES: bound > 0.
  uint64_t below(uint64_t bound);
};

Random& system_random();

class SeededRandom final : public Random {
 public:
  explicit SeededRandom(uint64_t seed);
  uint64_t next_u64() override;
  void fill(std::span<uint8_t> out) override;

 private:
  std::array<uint64_t, 4> state_;
};

}  // namespace cairn
