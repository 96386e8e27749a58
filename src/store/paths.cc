#include "store/paths.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "base/limits.h"

namespace cairn::store {

namespace {

// Nothing when the path is valid, else why not.
const char* path_fault(std::string_view path) {
  if (path.empty()) return "it is empty";
  if (path.size() > limits::kPathBytesMax) return "it is longer than 4096 bytes";
  if (path.find('\0') != std::string_view::npos) return "it holds a NUL byte";
  size_t depth = 0;
  for (size_t at = 0; at <= path.size();) {
    size_t end = std::min(path.find('/', at), path.size());
    std::string_view segment = path.substr(at, end - at);
    if (segment.empty()) return "it has an empty segment";
    if (segment == "." || segment == "..") return "it has a segment '.' or '..'";
    if (segment.size() > limits::kSegmentBytesMax) return "a segment is longer than 255 bytes";
    if (++depth > limits::kPathDepthMax) return "it has more than 1024 segments";
    at = end + 1;
  }
  return nullptr;
}

// The order of a byte: '/' first, all others as they are (NUL is never in a path).
int rank(char c) { return c == '/' ? 0 : static_cast<unsigned char>(c); }

// How many bytes of the UTF-8 sequence at the front are one printable character, or 0.
size_t printable_utf8(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  uint8_t first = byte(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  size_t length = first >= 0xf0 && first <= 0xf4 ? 4 : first >= 0xe0 && first < 0xf0 ? 3 : first >= 0xc2 && first < 0xe0 ? 2 : 0;
  if (length == 0 || text.size() < length) return 0;
  uint32_t point = first & (0x7f >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    point = point << 6 | (byte(i) & 0x3f);
  }
  constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (point < kSmallest[length] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) return 0;
  // C1 controls, line separators, and the marks that turn the direction of text.
  if (point < 0xa0 || (point >= 0x2028 && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069) || point == 0xfeff ||
      point == 0x200e || point == 0x200f) {
    return 0;
  }
  return length;
}

}  // namespace

bool is_valid_path(std::string_view path) { return path_fault(path) == nullptr; }

Status validate_path(std::string_view path) {
  const char* fault = path_fault(path);
  if (fault == nullptr) return ok();
  return Error(Code::kPathInvalid, fmt::format("'{}' is not a path on a volume: {}",
                                               escape_for_display(path.substr(0, 512)), fault));
}

Status validate_symlink_target(std::string_view target) {
  if (target.empty() || target.size() > limits::kSymlinkBytesMax || target.find('\0') != std::string_view::npos) {
    return Error(Code::kPathInvalid, fmt::format("a symlink's target must have 1 to {} bytes and no NUL; this one has {}",
                                                 limits::kSymlinkBytesMax, target.size()));
  }
  return ok();
}

Result<std::string> normalize_path(std::string_view text) {
  std::string path;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('/', at), text.size());
    std::string_view segment = text.substr(at, end - at);
    at = end + 1;
    if (segment.empty() || segment == ".") continue;
    if (!path.empty()) path.push_back('/');
    path.append(segment);
  }
  if (!path.empty()) CAIRN_CHECK_OK(validate_path(path));
  return path;
}

int path_compare(std::string_view a, std::string_view b) {
  size_t common = std::min(a.size(), b.size());
  size_t i = 0;
  for (; i + 8 <= common; i += 8) {
    uint64_t x;
    uint64_t y;
    std::memcpy(&x, a.data() + i, 8);
    std::memcpy(&y, b.data() + i, 8);
    if (x != y) break;
  }
  for (; i < common; ++i) {
    if (a[i] != b[i]) return rank(a[i]) - rank(b[i]);
  }
  return a.size() == b.size() ? 0 : a.size() < b.size() ? -1 : 1;
}

bool is_under(std::string_view path, std::string_view prefix) {
  if (prefix.empty()) return !path.empty();
  return path.size() > prefix.size() && path[prefix.size()] == '/' && path.substr(0, prefix.size()) == prefix;
}

bool is_at_or_under(std::string_view path, std::string_view prefix) { return path == prefix || is_under(path, prefix); }

int compare_to_subtree(std::string_view path, std::string_view prefix) {
  if (is_at_or_under(path, prefix)) return 0;
  return path_compare(path, prefix) < 0 ? -1 : 1;
}

bool is_under_runs(std::string_view path) { return is_at_or_under(path, "runs"); }

bool prefix_touches_runs(std::string_view prefix) { return prefix.empty() || is_under_runs(prefix); }

std::string_view parent_path(std::string_view path) {
  size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

std::string_view base_name(std::string_view path) {
  size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

std::string join_path(std::string_view parent, std::string_view name) {
  std::string path(parent);
  if (!path.empty()) path.push_back('/');
  path.append(name);
  return path;
}

std::string escape_for_display(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    size_t length = printable_utf8(bytes);
    if (bytes[0] == '\\') {
      text.append("\\\\");
    } else if (length == 0) {
      text.append(fmt::format("\\x{:02x}", static_cast<uint8_t>(bytes[0])));
    } else {
      text.append(bytes.substr(0, length));
    }
    bytes.remove_prefix(std::max<size_t>(length, 1));
  }
  return text;
}

}  // namespace cairn::store
