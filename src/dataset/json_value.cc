#include "dataset/json_value.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include "base/check.h"

namespace cairn::dataset {

namespace {

constexpr size_t kFewKeys = 16;
constexpr size_t kIntegerDigitsMax = 4300;  // what Python reads

// repr() of a finite Python float.
std::string float_spelling(double value) {
  char buffer[64];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  std::string_view text(buffer, static_cast<size_t>(end - buffer));
  std::string sign;
  if (text.front() == '-') {
    sign = "-";
    text.remove_prefix(1);
  }
  size_t mark = text.find('e');
  std::string digits(1, text[0]);
  if (mark > 2) digits += text.substr(2, mark - 2);
  int exponent = std::atoi(std::string(text.substr(mark + 1)).c_str());
  if (exponent < -4 || exponent >= 16) {
    std::string out = sign + digits.substr(0, 1);
    if (digits.size() > 1) out += "." + digits.substr(1);
    return out + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  size_t whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return sign + digits + std::string(whole - digits.size(), '0') + ".0";
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

void append_utf8(std::string& out, uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | (code >> 6));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | (code >> 12));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (code >> 18));
    out += static_cast<char>(0x80 | ((code >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

// Length of the well-formed character at `at`, 0 when there is none.
size_t character_length(std::string_view text, size_t at) {
  auto byte = [&](size_t i) -> uint32_t { return i < text.size() ? static_cast<uint8_t>(text[i]) : 0; };
  auto next = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  uint32_t first = byte(at);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return next(at + 1) ? 2 : 0;
  uint32_t second = byte(at + 1);
  if (first >= 0xE0 && first <= 0xEF) {
    if (first == 0xE0 && second < 0xA0) return 0;
    if (first == 0xED && second > 0x9F) return 0;
    return next(at + 1) && next(at + 2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if (first == 0xF0 && second < 0x90) return 0;
    if (first == 0xF4 && second > 0x8F) return 0;
    return next(at + 1) && next(at + 2) && next(at + 3) ? 4 : 0;
  }
  return 0;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<JsonValue> parse() {
    CAIRN_TRY(JsonValue value, parse_value(0));
    skip_space();
    if (at_ != text_.size()) return wrong("something after the end of the JSON value");
    return value;
  }

 private:
  Error wrong(std::string_view what) const {
    return Error(Code::kDataInvalid, fmt::format("not valid JSON at byte {}: {}", at_, what));
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) ++at_;
  }
  bool eat(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  Result<JsonValue> parse_value(size_t depth) {
    if (depth > kJsonDepthMax) {
      return Error(Code::kLimitExceeded, fmt::format("JSON nested more than {} levels deep", kJsonDepthMax));
    }
    if (++values_ > kJsonValuesMax) {
      return Error(Code::kLimitExceeded, fmt::format("more than {} JSON values", kJsonValuesMax));
    }
    skip_space();
    if (at_ >= text_.size()) return wrong("it ends too early");
    JsonValue value;
    switch (text_[at_]) {
      case '{': return parse_object(depth);
      case '[': return parse_array(depth);
      case '"':
        value.kind = JsonValue::Kind::kString;
        CAIRN_CHECK_OK(parse_string(value.text));
        return value;
      case 't': return parse_word("true", JsonValue::Kind::kTrue);
      case 'f': return parse_word("false", JsonValue::Kind::kFalse);
      case 'n': return parse_word("null", JsonValue::Kind::kNull);
      default: return parse_number();
    }
  }

  Result<JsonValue> parse_word(std::string_view word, JsonValue::Kind kind) {
    if (text_.substr(at_, word.size()) != word) return wrong("an unknown word");
    at_ += word.size();
    JsonValue value;
    value.kind = kind;
    return value;
  }

  Result<JsonValue> parse_array(size_t depth) {
    JsonValue value;
    value.kind = JsonValue::Kind::kArray;
    ++at_;
    skip_space();
    if (eat(']')) return value;
    for (;;) {
      CAIRN_TRY(JsonValue item, parse_value(depth + 1));
      value.items.push_back(std::move(item));
      skip_space();
      if (eat(']')) return value;
      if (!eat(',')) return wrong("expected ',' or ']'");
    }
  }

  Result<JsonValue> parse_object(size_t depth) {
    JsonValue value = JsonValue::of_object();
    std::unordered_map<std::string, size_t> places;
    ++at_;
    skip_space();
    if (eat('}')) return value;
    for (;;) {
      skip_space();
      if (at_ >= text_.size() || text_[at_] != '"') return wrong("expected a key in quotes");
      std::string key;
      CAIRN_CHECK_OK(parse_string(key));
      skip_space();
      if (!eat(':')) return wrong("expected ':'");
      CAIRN_TRY(JsonValue item, parse_value(depth + 1));
      size_t place = place_of(value, key, places);
      if (place < value.keys.size()) {
        value.items[place] = std::move(item);
      } else {
        value.keys.push_back(std::move(key));
        value.items.push_back(std::move(item));
      }
      skip_space();
      if (eat('}')) return value;
      if (!eat(',')) return wrong("expected ',' or '}'");
    }
  }

  // Where `key` stands, or keys.size(). A map only once there are many: nearly all objects have a handful of keys.
  static size_t place_of(const JsonValue& value, const std::string& key, std::unordered_map<std::string, size_t>& places) {
    if (value.keys.size() < kFewKeys) {
      size_t place = 0;
      while (place < value.keys.size() && value.keys[place] != key) ++place;
      return place;
    }
    if (places.empty()) {
      for (size_t i = 0; i < value.keys.size(); ++i) places.emplace(value.keys[i], i);
    }
    return places.emplace(key, value.keys.size()).first->second;
  }

  Result<uint32_t> parse_hex4() {
    if (text_.size() - at_ < 4) return wrong("a \\u escape wants four hex digits");
    uint32_t code = 0;
    auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + at_ + 4, code, 16);
    if (error != std::errc() || end != text_.data() + at_ + 4) return wrong("a \\u escape wants four hex digits");
    at_ += 4;
    return code;
  }

  Status parse_escape(std::string& out) {
    if (at_ >= text_.size()) return wrong("it ends inside a string");
    char c = text_[at_++];
    switch (c) {
      case '"': case '\\': case '/': out += c; return ok();
      case 'b': out += '\b'; return ok();
      case 'f': out += '\f'; return ok();
      case 'n': out += '\n'; return ok();
      case 'r': out += '\r'; return ok();
      case 't': out += '\t'; return ok();
      case 'u': break;
      default: return wrong("an unknown escape");
    }
    CAIRN_TRY(uint32_t code, parse_hex4());
    if (code >= 0xD800 && code < 0xE000) {
      if (code >= 0xDC00 || text_.substr(at_, 2) != "\\u") return wrong("half a surrogate pair");
      at_ += 2;
      CAIRN_TRY(uint32_t low, parse_hex4());
      if (low < 0xDC00 || low >= 0xE000) return wrong("half a surrogate pair");
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    append_utf8(out, code);
    return ok();
  }

  Status parse_string(std::string& out) {
    ++at_;
    for (;;) {
      size_t begin = at_;
      while (at_ < text_.size()) {
        auto c = static_cast<uint8_t>(text_[at_]);
        if (c == '"' || c == '\\' || c < 0x20) break;
        size_t length = character_length(text_, at_);
        if (length == 0) return wrong("a byte that is no UTF-8");
        at_ += length;
      }
      out.append(text_, begin, at_ - begin);
      if (at_ >= text_.size()) return wrong("it ends inside a string");
      if (eat('"')) return ok();
      if (!eat('\\')) return wrong("a control character inside a string");
      CAIRN_CHECK_OK(parse_escape(out));
    }
  }

  size_t skip_digits() {
    size_t begin = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    return at_ - begin;
  }

  Result<JsonValue> parse_number() {
    size_t begin = at_;
    bool is_float = false;
    static_cast<void>(eat('-'));
    size_t first = at_;
    size_t digits = skip_digits();
    if (digits == 0) return wrong("expected a value");
    if (digits > 1 && text_[first] == '0') return wrong("a number with a leading zero");
    if (eat('.')) {
      is_float = true;
      if (skip_digits() == 0) return wrong("a number without digits after the point");
    }
    if (eat('e') || eat('E')) {
      is_float = true;
      if (!eat('-')) static_cast<void>(eat('+'));
      if (skip_digits() == 0) return wrong("a number without digits in its exponent");
    }
    JsonValue value;
    value.kind = JsonValue::Kind::kNumber;
    value.text.assign(text_, begin, at_ - begin);
    if (!is_float) {
      if (digits > kIntegerDigitsMax) return wrong("an integer of more than 4300 digits");
      if (value.text == "-0") value.text = "0";
      return value;
    }
    double number = std::strtod(value.text.c_str(), nullptr);
    if (!std::isfinite(number)) return wrong("a number too large for a double");
    value.text = float_spelling(number);
    return value;
  }

  std::string_view text_;
  size_t at_ = 0;
  size_t values_ = 0;
};

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  for (char c : text) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      case '\b': out += "\\b"; break;
      case '\f': out += "\\f"; break;
      default:
        if (static_cast<uint8_t>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

void append_json(std::string& out, const JsonValue& value) {
  switch (value.kind) {
    case JsonValue::Kind::kNull: out += "null"; break;
    case JsonValue::Kind::kFalse: out += "false"; break;
    case JsonValue::Kind::kTrue: out += "true"; break;
    case JsonValue::Kind::kNumber: out += value.text; break;
    case JsonValue::Kind::kString: append_quoted(out, value.text); break;
    case JsonValue::Kind::kArray:
    case JsonValue::Kind::kObject:
      out += value.is_array() ? '[' : '{';
      for (size_t i = 0; i < value.items.size(); ++i) {
        if (i > 0) out += ", ";
        if (value.is_object()) {
          append_quoted(out, value.keys[i]);
          out += ": ";
        }
        append_json(out, value.items[i]);
      }
      out += value.is_array() ? ']' : '}';
      break;
  }
}

// Whether repr() writes a character as it is.
bool is_printable(UChar32 c) {
  if (c == ' ') return true;
  constexpr uint32_t kHidden = U_GC_C_MASK | U_GC_Z_MASK;
  return (U_GET_GC_MASK(c) & kHidden) == 0;
}

void append_repr_of_text(std::string& out, std::string_view text) {
  char quote = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos ? '"' : '\'';
  out += quote;
  for (size_t at = 0; at < text.size();) {
    size_t begin = at;
    at += character_length(text, at);  // parsed text is well-formed
    std::string_view bytes = text.substr(begin, at - begin);
    UChar32 c = 0;
    int32_t offset = 0;
    U8_NEXT_UNSAFE(reinterpret_cast<const uint8_t*>(bytes.data()), offset, c);
    if (c == '\\' || c == quote) {
      out += '\\';
      out += bytes;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (is_printable(c)) {
      out += bytes;
    } else if (c < 0x100) {
      out += fmt::format("\\x{:02x}", c);
    } else {
      out += c < 0x10000 ? fmt::format("\\u{:04x}", c) : fmt::format("\\U{:08x}", c);
    }
  }
  out += quote;
}

void append_repr(std::string& out, const JsonValue& value) {
  if (value.is_string()) return append_repr_of_text(out, value.text);
  if (!value.is_array() && !value.is_object()) {
    out += python_text(value);
    return;
  }
  out += value.is_array() ? '[' : '{';
  for (size_t i = 0; i < value.items.size(); ++i) {
    if (i > 0) out += ", ";
    if (value.is_object()) {
      append_repr_of_text(out, value.keys[i]);
      out += ": ";
    }
    append_repr(out, value.items[i]);
  }
  out += value.is_array() ? ']' : '}';
}

}  // namespace

const JsonValue* JsonValue::find(std::string_view key) const {
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i] == key) return &items[i];
  }
  return nullptr;
}

std::string_view JsonValue::kind_name() const {
  switch (kind) {
    case Kind::kNull: return "null";
    case Kind::kFalse:
    case Kind::kTrue: return "a boolean";
    case Kind::kNumber: return "a number";
    case Kind::kString: return "a string";
    case Kind::kArray: return "a list";
    case Kind::kObject: return "an object";
  }
  return "?";
}

JsonValue JsonValue::of_string(std::string value) {
  JsonValue result;
  result.kind = Kind::kString;
  result.text = std::move(value);
  return result;
}

JsonValue JsonValue::of_object() {
  JsonValue result;
  result.kind = Kind::kObject;
  return result;
}

void JsonValue::add(std::string key, JsonValue value) {
  CAIRN_CHECK(is_object());
  keys.push_back(std::move(key));
  items.push_back(std::move(value));
}

Result<JsonValue> parse_json(std::string_view text) {
  if (text.size() > kJsonBytesMax) {
    return Error(Code::kLimitExceeded, fmt::format("{} bytes of JSON, more than {}", text.size(), kJsonBytesMax));
  }
  return Parser(text).parse();
}

std::string python_json(const JsonValue& value) {
  std::string out;
  append_json(out, value);
  return out;
}

std::string python_text(const JsonValue& value) {
  switch (value.kind) {
    case JsonValue::Kind::kNull: return "None";
    case JsonValue::Kind::kFalse: return "False";
    case JsonValue::Kind::kTrue: return "True";
    case JsonValue::Kind::kNumber:
    case JsonValue::Kind::kString: return value.text;
    case JsonValue::Kind::kArray:
    case JsonValue::Kind::kObject: break;
  }
  std::string out;
  append_repr(out, value);
  return out;
}

}  // namespace cairn::dataset
