// Sizes and spans of time as people write them in configuration files and on the command line.
//
// A size is a Kubernetes quantity: "500Gi", "1.5Ti", "100G", "1e12", or plain bytes. A span is a number with a unit: "90s",
// "30m", "24h", "7d". Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace cairn {

// Whole bytes; a fraction of a byte is rounded up. size_invalid for anything else and for more than 2^62.
Result<uint64_t> parse_size(std::string_view text);
// The shortest exact quantity, binary units first: 5Ti, 1536Gi, 100G, 1234567.
std::string format_size(uint64_t bytes);
// For people, rounded: "812 B", "4.21 TiB", "63.5 GiB".
std::string human_bytes(uint64_t bytes);

// usage for anything else and for more than 100 years.
Result<Duration> parse_duration(std::string_view text);

}  // namespace cairn
