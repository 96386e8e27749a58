// Whole numbers as they stand in names, headers, option values and files of other programs. A pure function.
#pragma once

#include <charconv>
#include <concepts>
#include <optional>
#include <string_view>

namespace cairn {

// All of `text` as a decimal number of digits only, without sign or blank; nothing for anything else and for what T cannot hold.
template <std::integral T>
std::optional<T> whole_number(std::string_view text) {
  if (text.empty() || text.front() == '-') return std::nullopt;
  T value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace cairn
