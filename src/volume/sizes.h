// Sizes as people write them: Kubernetes quantities ("500Gi", "1.5Ti", "100G", "1e12", plain bytes).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cairn::volume {

// Whole bytes; a fraction of a byte is rounded up. size_invalid for anything else, for 0 and for more than 2^62.
Result<int64_t> parse_size(std::string_view text);
// The shortest exact quantity, binary units first: 5Ti, 1536Gi, 100G, 1234567.
std::string format_size(int64_t bytes);
// For messages: about three digits, binary units, "4.21 TiB".
std::string format_size_rounded(int64_t bytes);

}  // namespace cairn::volume
