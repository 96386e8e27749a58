#include "volume/names.h"

#include <string>

#include "base/limits.h"
#include "store/paths.h"

namespace cairn::volume {
namespace {

constexpr char kHint[] = "a volume's name is 1 to 40 of a-z, 0-9 and '-', and begins and ends with a letter or digit";

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

}  // namespace

Status check_volume_name(std::string_view name) {
  if (name.empty()) return Error(Code::kVolumeNameInvalid, "the volume's name is empty", kHint);
  if (name.size() > limits::kVolumeNameBytesMax) {
    return Error(Code::kVolumeNameInvalid, "the volume's name has " + std::to_string(name.size()) + " characters",
                 kHint);
  }
  for (char c : name) {
    if (is_letter_or_digit(c) || c == '-') continue;
    return Error(
        Code::kVolumeNameInvalid,
        "'" + store::escape_for_display(name) + "' holds '" + store::escape_for_display(std::string_view(&c, 1)) + "'",
        kHint);
  }
  if (name.front() == '-' || name.back() == '-') {
    return Error(Code::kVolumeNameInvalid, "'" + std::string(name) + "' begins or ends with '-'", kHint);
  }
  return ok();
}

}  // namespace cairn::volume
