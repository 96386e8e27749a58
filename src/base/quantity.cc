#include "base/quantity.h"

#include <iterator>

#include <fmt/core.h>

namespace cairn {
namespace {

// Room for 20 digits times any unit.
__extension__ typedef unsigned __int128 Wide;

struct Unit {
  std::string_view suffix;
  uint64_t factor;
};

constexpr uint64_t power(uint64_t base, int exponent) { return exponent == 0 ? 1 : base * power(base, exponent - 1); }

// Longer suffixes first.
constexpr Unit kSizeUnits[] = {
    {"Ki", power(1024, 1)}, {"Mi", power(1024, 2)}, {"Gi", power(1024, 3)}, {"Ti", power(1024, 4)},
    {"Pi", power(1024, 5)}, {"k", power(1000, 1)},  {"M", power(1000, 2)},  {"G", power(1000, 3)},
    {"T", power(1000, 4)},  {"P", power(1000, 5)},
};

constexpr Unit kTimeUnits[] = {{"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86'400}};

constexpr uint64_t kSizeMax = uint64_t{1} << 62;

// digits[.digits] as mantissa × 10^-scale. False for anything else or too many digits.
bool parse_decimal(std::string_view text, Wide& mantissa, int& scale) {
  mantissa = 0;
  scale = 0;
  bool point = false;
  int digits = 0;
  for (char c : text) {
    if (c == '.' && !point) {
      point = true;
      continue;
    }
    if (c < '0' || c > '9' || ++digits > 20) return false;
    mantissa = mantissa * 10 + static_cast<unsigned>(c - '0');
    if (point) ++scale;
  }
  return digits > 0 && text.back() != '.' && text.front() != '.';
}

Error bad_size(std::string_view text) {
  return Error(Code::kSizeInvalid, "'" + std::string(text.substr(0, 64)) + "' is not a size", "write it like 500Gi, 1.5Ti or 100G");
}

}  // namespace

Result<uint64_t> parse_size(std::string_view text) {
  std::string_view number = text;
  uint64_t factor = 1;
  int exponent = 0;
  for (const Unit& unit : kSizeUnits) {
    if (number.ends_with(unit.suffix)) {
      number.remove_suffix(unit.suffix.size());
      factor = unit.factor;
      break;
    }
  }
  size_t e = number.find_first_of("eE");
  if (factor == 1 && e != std::string_view::npos) {
    std::string_view power_text = number.substr(e + 1);
    if (power_text.empty() || power_text.size() > 2) return bad_size(text);
    for (char c : power_text) {
      if (c < '0' || c > '9') return bad_size(text);
      exponent = exponent * 10 + (c - '0');
    }
    if (exponent > 18) return bad_size(text);
    number = number.substr(0, e);
  }
  Wide mantissa = 0;
  int scale = 0;
  if (number.empty() || !parse_decimal(number, mantissa, scale)) return bad_size(text);
  for (; exponent > 0; --exponent) factor *= 10;
  Wide divisor = 1;
  for (; scale > 0; --scale) divisor *= 10;
  if (mantissa > (~static_cast<Wide>(0)) / factor) return bad_size(text);
  Wide bytes = (mantissa * factor + divisor - 1) / divisor;
  if (bytes > kSizeMax) return bad_size(text);
  return static_cast<uint64_t>(bytes);
}

std::string format_size(uint64_t bytes) {
  std::string best = std::to_string(bytes);
  if (bytes == 0) return best;
  for (const Unit& unit : kSizeUnits) {
    if (bytes % unit.factor != 0) continue;
    std::string text = std::to_string(bytes / unit.factor) + std::string(unit.suffix);
    // Binary units come first in the table and win unless a decimal one is shorter.
    if (text.size() < best.size()) best = std::move(text);
  }
  return best;
}

std::string human_bytes(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", value, value < 9.995 ? 2 : 1, kUnits[unit]);
}

Result<Duration> parse_duration(std::string_view text) {
  auto refuse = [&] {
    return Error(Code::kUsage, "'" + std::string(text.substr(0, 64)) + "' is not a span of time",
                 "write it like 90s, 30m, 24h or 7d");
  };
  if (text.size() < 2 || text.size() > 12) return refuse();
  uint64_t factor = 0;
  for (const Unit& unit : kTimeUnits) {
    if (text.ends_with(unit.suffix)) factor = unit.factor;
  }
  uint64_t number = 0;
  for (char c : text.substr(0, text.size() - 1)) {
    if (c < '0' || c > '9') return refuse();
    number = number * 10 + static_cast<uint64_t>(c - '0');
  }
  constexpr uint64_t kSecondsMax = uint64_t{100} * 366 * 86'400;
  if (factor == 0 || number > kSecondsMax / factor) return refuse();
  return Duration(seconds(static_cast<int64_t>(number * factor)));
}

}  // namespace cairn
