// Lower-case hex, as Cairn writes ids, digests and paths in the catalog, in JSON and in URLs. Decoding is strict: upper-case
// digits are refused, since one value has one spelling.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/random.h"
#include "codec/bytes.h"

namespace cairn::codec {

std::string hex_encode(ByteView data);
inline std::string hex_encode(std::string_view text) { return hex_encode(as_bytes(text)); }
// Nothing unless `hex` is an even number of lower-case hex digits.
std::optional<Bytes> hex_decode(std::string_view hex);
// The same as raw text, for paths.
std::optional<std::string> hex_decode_text(std::string_view hex);

// What nobody can guess: 256 random bits, 64 digits.
inline constexpr size_t kSecretDigits = 64;
std::string random_secret(Random& random);

// Eight digits, the value's usual spelling ("0x" left out).
std::string hex_u32(uint32_t value);
std::optional<uint32_t> hex_decode_u32(std::string_view hex);

}  // namespace cairn::codec
