// JSON as chat templates see it: a value keeps the order of its keys and prints as Python's json.dumps(ensure_ascii=False) does,
// because tools and tool-call arguments are printed into prompts, where every byte becomes part of a token. Numbers are held in
// the spelling Python gives them (1e16 is "1e+16", an integer keeps all its digits).
//
// Strict: UTF-8 only, no lone surrogates, no NaN, bounded depth, size and number of values. Of equal keys the last value counts,
// at the place of the first. Values are plain data; the functions are thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cairn::dataset {

inline constexpr size_t kJsonBytesMax = 16u * 1024 * 1024;
inline constexpr size_t kJsonDepthMax = 64;
inline constexpr size_t kJsonValuesMax = 1'000'000;

struct JsonValue {
  enum class Kind : uint8_t { kNull, kFalse, kTrue, kNumber, kString, kArray, kObject };

  Kind kind = Kind::kNull;
  std::string text;              // of a string, or the spelling of a number
  std::vector<std::string> keys;  // of an object; items[i] belongs to keys[i]
  std::vector<JsonValue> items;   // of an array or object

  bool is_null() const { return kind == Kind::kNull; }
  bool is_string() const { return kind == Kind::kString; }
  bool is_array() const { return kind == Kind::kArray; }
  bool is_object() const { return kind == Kind::kObject; }

  // The value of a key; null pointer when absent or when this is no object.
  const JsonValue* find(std::string_view key) const;
  // "a list", "a string", … for messages.
  std::string_view kind_name() const;

  static JsonValue of_string(std::string value);
  static JsonValue of_object();
  // REQUIRES: an object without that key.
  void add(std::string key, JsonValue value);
};

// data_invalid says what is wrong and at which byte; limit_exceeded when it is too large or deep.
Result<JsonValue> parse_json(std::string_view text);

// json.dumps(value, ensure_ascii=False): separators ", " and ": ".
std::string python_json(const JsonValue& value);
// str(value): strings as they are, True, None; lists and objects as repr() shows them ("['integer', 'null']").
std::string python_text(const JsonValue& value);

}  // namespace cairn::dataset
