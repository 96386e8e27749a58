#include <algorithm>
#include <cstdint>
#include <limits>

#include "api/json_fields.h"
#include "codec/json_depth.h"

namespace cairn::api {
Result<Json> parse_bounded(std::string_view text, size_t bytes_max) {
  if (text.size() > bytes_max) {
    return Error(Code::kRequestTooLarge,
                 "the JSON document has " + std::to_string(text.size()) + " bytes; at most " + std::to_string(bytes_max));
  }
  if (codec::json_deeper_than(text, kJsonDepthMax)) {
    return Error(Code::kRequestInvalid, "the JSON document is nested deeper than " + std::to_string(kJsonDepthMax));
  }
  Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return Error(Code::kRequestInvalid, "the body is not a JSON document");
  return json;
}

const Json* Decoder::find(const std::string& name) {
  if (error_) return nullptr;
  asked_.push_back(name);
  auto found = object_.find(name);
  return found == object_.end() ? nullptr : &*found;
}

void Decoder::complain(std::string_view name, std::string_view what) {
  if (error_) return;
  std::string field = where_ + std::string(name);
  if (!field.empty() && field.back() == '.') field.pop_back();
  error_ = Error(Code::kRequestInvalid,
                 (field.empty() ? "the body" : "field '" + field + "'") + " " + std::string(what));
}

Status Decoder::finish() {
  if (error_) return *error_;
  if (!strict_) return ok();
  for (const auto& [key, value] : object_.items()) {
    if (std::find(asked_.begin(), asked_.end(), key) == asked_.end()) {
      complain(display_path(key.substr(0, 64)), "is not known here");
      return *error_;
    }
  }
  return ok();
}

void Decoder::decode_hex(const std::string& name, const Json& json, std::string& bytes) {
  auto decoded = json.is_string() ? codec::hex_decode_text(json.get_ref<const std::string&>()) : std::nullopt;
  if (!decoded) return complain(name, "is not an even number of lower-case hex digits");
  if (decoded->size() > kTextBytesMax) return complain(name, "is longer than 4096 bytes");
  bytes = *std::move(decoded);
}

void Decoder::path(const char* name, std::string& bytes) {
  find(name);  // the form for people is accepted and does not count
  std::string exact = Encoder::hex_name(name);
  const Json* json = find(exact);
  if (json == nullptr) return complain(exact, "is missing");
  decode_hex(exact, *json, bytes);
}

void Decoder::option_path(const char* name, std::optional<std::string>& bytes) {
  find(name);
  std::string exact = Encoder::hex_name(name);
  const Json* json = find(exact);
  if (json != nullptr && !json->is_null()) decode_hex(exact, *json, bytes.emplace());
}

void Decoder::paths(const char* name, std::vector<std::string>& list, size_t max) {
  find(name);
  std::string exact = Encoder::hex_name(name);
  const Json* json = find(exact);
  if (json == nullptr) return complain(exact, "is missing");
  size_t items_max = max == 0 ? kItemsMax : max;
  if (!json->is_array()) return complain(exact, "is not a list");
  if (json->size() > items_max) return complain(exact, "has more than " + std::to_string(items_max) + " items");
  list.clear();
  for (size_t i = 0; i < json->size() && !error_; ++i) {
    decode_hex(exact + "[" + std::to_string(i) + "]", (*json)[i], list.emplace_back());
  }
}

void Decoder::decode(std::string_view name, const Json& json, std::string& value, size_t max) {
  size_t bytes_max = max == 0 ? kTextBytesMax : max;
  if (!json.is_string()) return complain(name, "is not a text");
  const auto& text = json.get_ref<const std::string&>();
  if (text.size() > bytes_max) {
    return complain(name, "has " + std::to_string(text.size()) + " bytes; at most " + std::to_string(bytes_max));
  }
  // The catalog refuses NUL in texts, and no field has a use for it.
  if (text.find('\0') != std::string::npos) return complain(name, "holds a NUL character");
  value = text;
}

void Decoder::decode(std::string_view name, const Json& json, bool& value, size_t) {
  if (!json.is_boolean()) return complain(name, "is not true or false");
  value = json.get<bool>();
}

void Decoder::decode(std::string_view name, const Json& json, uint64_t& value, size_t) {
  // The catalog holds 63 bits.
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
  if (!json.is_number_unsigned()) return complain(name, "is not a whole number from 0");
  uint64_t number = json.get<uint64_t>();
  if (number > kMax) return complain(name, "is larger than 2^63 - 1");
  value = number;
}

void Decoder::decode(std::string_view name, const Json& json, uint32_t& value, size_t) {
  uint64_t number = 0;
  decode(name, json, number, 0);
  if (number > std::numeric_limits<uint32_t>::max()) return complain(name, "is larger than 2^32 - 1");
  value = static_cast<uint32_t>(number);
}

void Decoder::decode(std::string_view name, const Json& json, int64_t& value, size_t) {
  bool fits = json.is_number_integer();
  if (fits && json.is_number_unsigned()) fits = json.get<uint64_t>() <= std::numeric_limits<int64_t>::max();
  if (!fits) return complain(name, "is not a whole number of 64 bits");
  value = json.get<int64_t>();
}

void Decoder::decode(std::string_view name, const Json& json, Time& value, size_t) {
  auto time = json.is_string() ? time_from_rfc3339(json.get_ref<const std::string&>()) : std::nullopt;
  if (!time) return complain(name, "is not a time like 2026-11-29T19:05:50Z");
  value = *time;
}

void Decoder::decode(std::string_view name, const Json& json, std::map<std::string, std::string>& value, size_t max) {
  size_t items_max = max == 0 ? 1000 : max;
  if (!json.is_object()) return complain(name, "is not an object of texts");
  if (json.size() > items_max) return complain(name, "has more than " + std::to_string(items_max) + " items");
  value.clear();
  for (const auto& [key, text] : json.items()) {
    if (key.empty() || key.size() > 256) return complain(name, "has a name that is empty or longer than 256 bytes");
    decode(std::string(name) + "." + key, text, value[key], 0);
    if (error_) return;
  }
}

}  // namespace cairn::api
