#include "volume/sizes.h"

#include <array>
#include <optional>

#include <fmt/core.h>

#include "store/paths.h"

namespace cairn::volume {
namespace {

__extension__ typedef unsigned __int128 Wide;

constexpr int64_t kSizeMax = int64_t{1} << 62;

struct Unit {
  std::string_view suffix;
  uint64_t bytes;
};
constexpr std::array<Unit, 12> kUnits = {{{"Ei", 1ULL << 60},
                                          {"Pi", 1ULL << 50},
                                          {"Ti", 1ULL << 40},
                                          {"Gi", 1ULL << 30},
                                          {"Mi", 1ULL << 20},
                                          {"Ki", 1ULL << 10},
                                          {"E", 1'000'000'000'000'000'000ULL},
                                          {"P", 1'000'000'000'000'000ULL},
                                          {"T", 1'000'000'000'000ULL},
                                          {"G", 1'000'000'000ULL},
                                          {"M", 1'000'000ULL},
                                          {"k", 1'000ULL}}};

Error invalid(std::string_view text, std::string_view why) {
  return Error(Code::kSizeInvalid,
               "'" + store::escape_for_display(text.substr(0, 64)) + "' is not a size: " + std::string(why),
               "write a size like 500Gi, 1.5Ti, 100G or 1048576");
}

// The factor a suffix stands for: a unit or an exponent ("e9").
std::optional<uint64_t> factor_of(std::string_view suffix) {
  if (suffix.empty()) return 1;
  for (const Unit& unit : kUnits) {
    if (unit.suffix == suffix) return unit.bytes;
  }
  if (suffix.size() < 2 || suffix.size() > 3 || (suffix[0] != 'e' && suffix[0] != 'E')) return std::nullopt;
  int exponent = 0;
  for (char c : suffix.substr(1)) {
    if (c < '0' || c > '9') return std::nullopt;
    exponent = exponent * 10 + (c - '0');
  }
  if (exponent > 18) return std::nullopt;
  uint64_t factor = 1;
  while (exponent-- > 0) factor *= 10;
  return factor;
}

}  // namespace

Result<int64_t> parse_size(std::string_view text) {
  size_t i = 0;
  uint64_t digits = 0;
  uint64_t scale = 1;
  size_t count = 0;
  bool point = false;
  for (; i < text.size(); ++i) {
    char c = text[i];
    if (c == '.' && !point) {
      point = true;
      continue;
    }
    if (c < '0' || c > '9') break;
    if (digits > 999'999'999'999'999'999ULL || scale > 99'999'999'999'999'999ULL)
      return invalid(text, "it has too many digits");
    digits = digits * 10 + static_cast<uint64_t>(c - '0');
    if (point) scale *= 10;
    ++count;
  }
  if (count == 0) return invalid(text, "it has no number");
  std::optional<uint64_t> factor = factor_of(text.substr(i));
  if (!factor) return invalid(text, "its unit is not known");
  Wide bytes = (static_cast<Wide>(digits) * *factor + scale - 1) / scale;
  if (bytes == 0) return invalid(text, "it is zero");
  if (bytes > static_cast<Wide>(kSizeMax)) return invalid(text, "it is too large");
  return static_cast<int64_t>(bytes);
}

std::string format_size(int64_t bytes) {
  std::string best = std::to_string(bytes);
  for (const Unit& unit : kUnits) {
    if (bytes <= 0 || static_cast<uint64_t>(bytes) % unit.bytes != 0) continue;
    std::string text = std::to_string(static_cast<uint64_t>(bytes) / unit.bytes) + std::string(unit.suffix);
    if (text.size() < best.size()) best = std::move(text);
  }
  return best;
}

std::string format_size_rounded(int64_t bytes) {
  for (const Unit& unit : kUnits) {
    if (unit.suffix.size() != 2 || bytes < static_cast<int64_t>(unit.bytes)) continue;
    double value = static_cast<double>(bytes) / static_cast<double>(unit.bytes);
    int decimals = value < 10 ? 2 : value < 100 ? 1 : 0;
    return fmt::format("{:.{}f} {}B", value, decimals, unit.suffix);
  }
  return std::to_string(bytes) + " B";
}

}  // namespace cairn::volume
