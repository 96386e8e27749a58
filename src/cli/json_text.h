// Builds the small JSON documents that commands print (docs/SCRIPTING.md). Strings are UTF-8: names of files
// go through shown_path first, what else is not UTF-8 gets replacement characters.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::cli {

std::string json_quote(std::string_view text);

class JsonText {
 public:
  JsonText& add(std::string_view key, std::string_view value) { return raw(key, json_quote(value)); }
  JsonText& add(std::string_view key, const char* value) { return add(key, std::string_view(value)); }
  JsonText& add(std::string_view key, const std::string& value) { return add(key, std::string_view(value)); }
  JsonText& add(std::string_view key, uint64_t value) { return raw(key, std::to_string(value)); }
  JsonText& add(std::string_view key, int64_t value) { return raw(key, std::to_string(value)); }
  JsonText& add(std::string_view key, bool value) { return raw(key, value ? "true" : "false"); }
  template <class T>
  JsonText& add(std::string_view key, const std::optional<T>& value) {
    return value ? add(key, *value) : raw(key, "null");
  }
  // `json` is a value already.
  JsonText& raw(std::string_view key, std::string_view json);
  std::string str() const { return "{" + text_ + "}"; }

 private:
  std::string text_;
};

// "[a, b]" of values already serialised.
std::string json_array(const std::vector<std::string>& values);

}  // namespace cairn::cli
