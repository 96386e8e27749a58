#include "object/object_key.h"

#include <algorithm>

#include "base/check.h"

namespace cairn::object {
namespace {

bool is_key_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

}  // namespace

bool ObjectKey::is_valid(std::string_view text) {
  if (text.empty() || text.size() > kBytesMax || text == "tmp" || text.starts_with("tmp/")) return false;
  size_t start = 0;
  while (start <= text.size()) {
    size_t end = std::min(text.find('/', start), text.size());
    std::string_view segment = text.substr(start, end - start);
    if (segment.empty() || segment.size() > 255 || segment == "." || segment == "..") return false;
    if (!std::all_of(segment.begin(), segment.end(), is_key_byte)) return false;
    start = end + 1;
  }
  return true;
}

Result<ObjectKey> ObjectKey::parse(std::string_view text) {
  if (is_valid(text)) return ObjectKey(text);
  return Error(Code::kRequestInvalid,
               "not an object key (segments of a-z 0-9 . _ - joined by '/', at most 512 bytes, not below tmp)");
}

ObjectKey ObjectKey::of(std::string_view text) {
  CAIRN_CHECK(is_valid(text));
  return ObjectKey(text);
}

}  // namespace cairn::object
