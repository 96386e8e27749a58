// Finds what toml++ 3.3 must not see. It has no defined answer for most characters beyond ASCII where TOML allows only ASCII
// (between keys and values), and where a text goes on after a line that ends with a backslash; and it walks and frees what it
// read one call deeper for each table within a table, so that a few dots for each level would use up the stack.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace cairn::config {

// Tables and lists within each other: the parts of a [header], those of a key, and open brackets, all together.
inline constexpr size_t kTomlDepthMax = 64;

struct TomlFlaw {
  enum class Kind { kStrayCharacter, kTooDeep };
  Kind kind;
  uint32_t line;  // from 1
};

// The first such place. Pure; linear.
std::optional<TomlFlaw> screen_toml(std::string_view text);

}  // namespace cairn::config
