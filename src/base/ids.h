// Identifiers. Every id is 128 random bits, written as 32 lower-case hex digits in the catalog, in JSON and in URLs. The tag
// makes ids of different things different types, so that swapped arguments do not compile.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/random.h"

namespace cairn {

template <class Tag>
class Id {
 public:
  static constexpr size_t kSize = 16;

  Id() = default;  // all zero: "none"
  static Id random(Random& random) {
    Id id;
    random.fill(id.bytes_);
    return id;
  }
  static Id from_bytes(const uint8_t* bytes) {
    Id id;
    std::memcpy(id.bytes_.data(), bytes, kSize);
    return id;
  }
  // Nothing unless `hex` is exactly 32 lower-case hex digits.
  static std::optional<Id> from_hex(std::string_view hex) {
    if (hex.size() != 2 * kSize) return std::nullopt;
    Id id;
    for (size_t i = 0; i < hex.size(); ++i) {
      char c = hex[i];
      int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
      if (digit < 0) return std::nullopt;
      id.bytes_[i / 2] = static_cast<uint8_t>(id.bytes_[i / 2] << 4 | digit);
    }
    return id;
  }
  std::string hex() const {
    constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    text.reserve(2 * kSize);
    for (uint8_t byte : bytes_) {
      text.push_back(kDigits[byte >> 4]);
      text.push_back(kDigits[byte & 15]);
    }
    return text;
  }
  bool is_none() const { return *this == Id(); }
  const std::array<uint8_t, kSize>& bytes() const { return bytes_; }
  auto operator<=>(const Id&) const = default;

 private:
  std::array<uint8_t, kSize> bytes_{};
};

using VolumeId = Id<struct VolumeTag>;
using StoreId = Id<struct StoreTag>;
using PackId = Id<struct PackTag>;
using UploadId = Id<struct UploadTag>;
using LeaseId = Id<struct LeaseTag>;
using PinId = Id<struct PinTag>;
using SnapshotId = Id<struct SnapshotTag>;
using RunId = Id<struct RunTag>;
using AttemptId = Id<struct AttemptTag>;
using NodeId = Id<struct NodeTag>;
using UserId = Id<struct UserTag>;
using TokenId = Id<struct TokenTag>;
using RequestId = Id<struct RequestTag>;

}  // namespace cairn

template <class Tag>
struct std::hash<cairn::Id<Tag>> {
  size_t operator()(const cairn::Id<Tag>& id) const noexcept {
    size_t value;
    std::memcpy(&value, id.bytes().data(), sizeof value);
    return value;
  }
};
