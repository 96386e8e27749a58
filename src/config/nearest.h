// "did you mean …": the known word closest to a mistyped one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::config {

// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other; at most `limit` + 1.
size_t edit_distance(std::string_view a, std::string_view b, size_t limit);

// Of several equally near ones the one that begins like the word, whatever their order. Nothing when none is within a third of
// the word's length (and at least 1, at most 3).
std::optional<std::string> nearest_word(std::string_view word, const std::vector<std::string>& known);

}  // namespace cairn::config
