// How deep the tables of a TOML text stand within each other. toml++ walks and frees what it read one call deeper for each, so
// that a few dots for each level would use up the stack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace cairn::config {

// Tables and lists within each other: the parts of a [header], those of a key, and open brackets, all together.
inline constexpr size_t kTomlDepthMax = 64;

// The first line, from 1, on which there are more. Pure; linear.
std::optional<uint32_t> too_deep_toml(std::string_view text);

}  // namespace cairn::config
