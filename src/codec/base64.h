// Base64 (RFC 4648) in both alphabets. Decoding is strict: no white space, exact padding (none in the URL alphabet), and no
// bits left over in the last digit, so that one value has one spelling.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "codec/bytes.h"

namespace cairn::codec {

// '+', '/' and padding with '='.
std::string base64_encode(ByteView data);
std::optional<Bytes> base64_decode(std::string_view text);

// '-', '_' and no padding: for tokens and URLs.
std::string base64url_encode(ByteView data);
std::optional<Bytes> base64url_decode(std::string_view text);

}  // namespace cairn::codec
