// SHA-256 and HMAC-SHA-256. A Digest is the identity of a chunk, a tree node or a pack's index; it is written as 64 lower-case
// hex digits. OpenSSL's code uses the processor's SHA instructions where there are any.
//
// The functions are thread-safe; a Sha256 belongs to one thread.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "codec/bytes.h"

namespace cairn::codec {

struct Digest {
  static constexpr size_t kSize = 32;

  std::array<uint8_t, kSize> bytes{};

  // REQUIRES: view.size() == kSize.
  static Digest from_bytes(ByteView view);
  // Nothing unless `hex` is exactly 64 lower-case hex digits.
  static std::optional<Digest> from_hex(std::string_view hex);
  std::string hex() const;
  ByteView view() const { return bytes; }
  // The first eight bytes as a little-endian number: evenly spread, for sampling and hash tables.
  uint64_t prefix_u64() const;
  auto operator<=>(const Digest&) const = default;
};

Digest sha256(ByteView data);

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  Sha256& update(ByteView data);
  Sha256& update(std::string_view text) { return update(as_bytes(text)); }
  // The digest of everything given since the start; the object is then as new.
  Digest finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Digest hmac_sha256(ByteView key, ByteView data);

// Compares in a time that depends on the lengths only: for secrets and signatures.
bool constant_time_equal(ByteView a, ByteView b);

}  // namespace cairn::codec

template <>
struct std::hash<cairn::codec::Digest> {
  size_t operator()(const cairn::codec::Digest& digest) const noexcept { return static_cast<size_t>(digest.prefix_u64()); }
};
