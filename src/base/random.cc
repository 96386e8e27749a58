#include "base/random.h"

#include <sys/random.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace cairn {
namespace {

class SystemRandom final : public Random {
 public:
  uint64_t next_u64() override {
    uint64_t value;
    fill({reinterpret_cast<uint8_t*>(&value), sizeof value});
    return value;
  }
  void fill(std::span<uint8_t> out) override {
    while (!out.empty()) {
      ssize_t got = getrandom(out.data(), std::min<size_t>(out.size(), 256), 0);
      CAIRN_CHECK(got > 0 || errno == EINTR);
      if (got > 0) out = out.subspan(static_cast<size_t>(got));
    }
  }
};

}  // namespace

uint64_t Random::below(uint64_t bound) {
  CAIRN_CHECK(bound > 0);
  uint64_t threshold = (0 - bound) % bound;
  for (;;) {
    uint64_t value = next_u64();
    if (value >= threshold) return value % bound;
  }
}

Random& system_random() {
  static SystemRandom random;
  return random;
}

SeededRandom::SeededRandom(uint64_t seed) {
  for (uint64_t& word : state_) {
    seed += 0x9e3779b97f4a7c15;
    uint64_t z = seed;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    word = z ^ (z >> 31);
  }
}

uint64_t SeededRandom::next_u64() {
  uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

void SeededRandom::fill(std::span<uint8_t> out) {
  while (!out.empty()) {
    uint64_t value = next_u64();
    size_t count = std::min(out.size(), sizeof value);
    std::memcpy(out.data(), &value, count);
    out = out.subspan(count);
  }
}

}  // namespace cairn
