// Finds what toml++ 3.3 must not see: it has no defined answer for most characters beyond ASCII where TOML allows only ASCII
// (between keys and values), and where a text goes on after a line that ends with a backslash.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace cairn::config {

// The line, from 1, of the first such character. Pure; linear.
std::optional<uint32_t> line_of_stray_character(std::string_view text);

}  // namespace cairn::config
