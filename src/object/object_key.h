// The name of an object: segments of a-z 0-9 . _ - joined by '/', at most 512 bytes in all, none of them empty, "." or
// "..", the first not "tmp" (a directory store keeps unfinished files there). It is a path below a directory store's
// root and a key in a bucket just as it is.
#pragma once

#include <compare>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cairn::object {

class ObjectKey {
 public:
  static constexpr size_t kBytesMax = 512;

  // request_invalid, naming the key and the rule, when it is not one.
  static Result<ObjectKey> parse(std::string_view text);
  // A key made of constants and ids. REQUIRES: is_valid(text).
  static ObjectKey of(std::string_view text);
  static bool is_valid(std::string_view text);

  const std::string& text() const { return text_; }
  auto operator<=>(const ObjectKey&) const = default;

 private:
  explicit ObjectKey(std::string_view text) : text_(text) {}
  std::string text_;
};

}  // namespace cairn::object

template <>
struct std::hash<cairn::object::ObjectKey> {
  size_t operator()(const cairn::object::ObjectKey& key) const noexcept { return std::hash<std::string>()(key.text()); }
};
