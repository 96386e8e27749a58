// How a struct is described once and read and written from that one description. For each wire type there is
//
//   template <class V> void fields(V& v, CreateVolume& b) { v.text("name", b.name); v.option("size_bytes", b.size_bytes); }
//
// and the visitor V is an Encoder, which fills a JSON object, or a Decoder, which takes fields from one and remembers the
// first complaint. Included by the .cc files of this module only (nlohmann/json is heavy).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <nlohmann/json.hpp>

#include "api/display.h"
#include "api/json.h"
#include "api/types.h"
#include "base/ids.h"
#include "codec/hex.h"

namespace cairn::api {

using Json = nlohmann::ordered_json;

inline constexpr size_t kTextBytesMax = 4096;
inline constexpr size_t kItemsMax = 100'000;

template <class E>
struct EnumNames;  // specialised with `static constexpr std::string_view kNames[]` in the order of the enumerators

template <class E>
std::string_view enum_name(E value) {
  return EnumNames<E>::kNames[static_cast<size_t>(value)];
}

// True for the structs of api/types.h, which have a `fields` of their own.
template <class T>
inline constexpr bool kIsWireStruct = std::is_class_v<T>;
template <>
inline constexpr bool kIsWireStruct<std::string> = false;
template <>
inline constexpr bool kIsWireStruct<Time> = false;
template <>
inline constexpr bool kIsWireStruct<std::map<std::string, std::string>> = false;
template <class Tag>
inline constexpr bool kIsWireStruct<Id<Tag>> = false;
template <class T>
inline constexpr bool kIsWireStruct<std::vector<T>> = false;

class Encoder {
 public:
  explicit Encoder(Json& object) : object_(object) { object_ = Json::object(); }

  template <class T>
  void field(const char* name, T& value, size_t = 0) { object_[name] = encode(value); }
  template <class T>
  void option(const char* name, T& value, size_t = 0) { object_[name] = encode(value); }
  template <class T>
  void option(const char* name, std::optional<T>& value, size_t = 0) {
    if (value) object_[name] = encode(*value);
  }
  void path(const char* name, std::string& bytes) {
    object_[name] = display_path(bytes);
    object_[hex_name(name)] = hex_of(bytes);
  }
  void option_path(const char* name, std::optional<std::string>& bytes) {
    if (bytes) path(name, *bytes);
  }
  void paths(const char* name, std::vector<std::string>& list, size_t = 0) {
    Json shown = Json::array();
    Json exact = Json::array();
    for (std::string& bytes : list) {
      shown.push_back(display_path(bytes));
      exact.push_back(hex_of(bytes));
    }
    object_[name] = std::move(shown);
    object_[hex_name(name)] = std::move(exact);
  }

  static std::string hex_name(const char* name) { return std::string(name) + "_hex"; }
  static std::string hex_of(const std::string& bytes) {
    return codec::hex_encode(std::string_view(bytes));
  }

 private:
  static Json encode(const std::string& value) { return value; }
  static Json encode(bool value) { return value; }
  static Json encode(uint64_t value) { return value; }
  static Json encode(uint32_t value) { return value; }
  static Json encode(int64_t value) { return value; }
  static Json encode(Time value) { return to_rfc3339(value); }
  static Json encode(const std::map<std::string, std::string>& value) {
    Json object = Json::object();
    for (const auto& [key, text] : value) object[key] = text;
    return object;
  }
  template <class Tag>
  static Json encode(const Id<Tag>& value) { return value.hex(); }
  template <class T>
  static Json encode(std::vector<T>& list) {
    Json array = Json::array();
    for (T& item : list) array.push_back(encode(item));
    return array;
  }
  template <class T>
    requires std::is_enum_v<T>
  static Json encode(T value) { return std::string(enum_name(value)); }
  template <class T>
    requires(kIsWireStruct<T>)
  static Json encode(T& value) {
    Json object;
    Encoder inner(object);
    fields(inner, value);
    return object;
  }

  Json& object_;
};

class Decoder {
 public:
  // `where` leads to the object: "" at the top, "mounts[2]." below.
  Decoder(const Json& object, bool strict, std::string where) : object_(object), strict_(strict), where_(std::move(where)) {
    if (!object_.is_object()) complain("", "is not an object");
  }

  // `max` bounds the bytes of a text and the items of a list.
  template <class T>
  void field(const char* name, T& value, size_t max = 0) {
    const Json* json = find(name);
    if (json == nullptr) return complain(name, "is missing");
    decode(name, *json, value, max);
  }
  template <class T>
  void option(const char* name, T& value, size_t max = 0) {
    const Json* json = find(name);
    if (json != nullptr && !json->is_null()) decode(name, *json, value, max);
  }
  template <class T>
  void option(const char* name, std::optional<T>& value, size_t max = 0) {
    const Json* json = find(name);
    if (json == nullptr || json->is_null()) return;
    value.emplace();
    decode(name, *json, *value, max);
  }
  void path(const char* name, std::string& bytes);
  void option_path(const char* name, std::optional<std::string>& bytes);
  void paths(const char* name, std::vector<std::string>& list, size_t max = 0);

  // The first complaint, or, when strict, one about a field that nobody asked for.
  Status finish();

 private:
  const Json* find(const std::string& name);
  void complain(std::string_view name, std::string_view what);
  void decode_hex(const std::string& name, const Json& json, std::string& bytes);

  void decode(std::string_view name, const Json& json, std::string& value, size_t max);
  void decode(std::string_view name, const Json& json, bool& value, size_t max);
  void decode(std::string_view name, const Json& json, uint64_t& value, size_t max);
  void decode(std::string_view name, const Json& json, uint32_t& value, size_t max);
  void decode(std::string_view name, const Json& json, int64_t& value, size_t max);
  void decode(std::string_view name, const Json& json, Time& value, size_t max);
  void decode(std::string_view name, const Json& json, std::map<std::string, std::string>& value, size_t max);
  template <class Tag>
  void decode(std::string_view name, const Json& json, Id<Tag>& value, size_t) {
    auto id = json.is_string() ? Id<Tag>::from_hex(json.get_ref<const std::string&>()) : std::nullopt;
    if (!id) return complain(name, "is not an id of 32 hex digits");
    value = *id;
  }
  template <class T>
  void decode(std::string_view name, const Json& json, std::vector<T>& list, size_t max) {
    size_t items_max = max == 0 ? kItemsMax : max;
    if (!json.is_array()) return complain(name, "is not a list");
    if (json.size() > items_max) {
      return complain(name, "has " + std::to_string(json.size()) + " items; at most " + std::to_string(items_max));
    }
    list.clear();
    list.reserve(json.size());
    for (size_t i = 0; i < json.size() && !error_; ++i) {
      decode(std::string(name) + "[" + std::to_string(i) + "]", json[i], list.emplace_back(), 0);
    }
  }
  template <class T>
    requires std::is_enum_v<T>
  void decode(std::string_view name, const Json& json, T& value, size_t) {
    if (json.is_string()) {
      size_t index = 0;
      for (std::string_view known : EnumNames<T>::kNames) {
        if (json.get_ref<const std::string&>() == known) {
          value = static_cast<T>(index);
          return;
        }
        ++index;
      }
    }
    std::string known_names;
    for (std::string_view known : EnumNames<T>::kNames) {
      known_names += (known_names.empty() ? "" : ", ") + std::string(known);
    }
    complain(name, "is none of " + known_names);
  }
  template <class T>
    requires(kIsWireStruct<T>)
  void decode(std::string_view name, const Json& json, T& value, size_t) {
    if (error_) return;
    Decoder inner(json, strict_, where_ + std::string(name) + ".");
    if (!inner.error_) fields(inner, value);
    Status status = inner.finish();
    if (!status) error_ = status.error();
  }

  const Json& object_;
  bool strict_;
  std::string where_;
  std::vector<std::string> asked_;
  std::optional<Error> error_;
};

// The text as a JSON value; request_invalid when it is none, is too deep or too long.
Result<Json> parse_bounded(std::string_view text, size_t bytes_max);

template <class T>
std::string encode_document(const T& value) {
  Json object;
  Encoder encoder(object);
  fields(encoder, const_cast<T&>(value));  // an Encoder only reads
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

template <class T>
Result<T> decode_document(std::string_view text, bool strict, size_t bytes_max) {
  CAIRN_TRY(Json json, parse_bounded(text, bytes_max));
  T value;
  Decoder decoder(json, strict, "");
  fields(decoder, value);
  CAIRN_CHECK_OK(decoder.finish());
  return value;
}

// What a mount of an attempt and the routes of volumes both hold.
template <class V>
void fields(V& v, Pin& b) {
  v.field("pin", b.pin);
  v.field("snapshot", b.snapshot);
  v.field("root", b.root);
  v.field("entries", b.entries);
  v.field("files", b.files);
  v.field("bytes", b.bytes);
  v.field("expires_at", b.expires_at);
}

template <class V>
void fields(V& v, Upload& b) {
  v.field("upload", b.upload);
  v.field("volume", b.volume);
  v.field("lease", b.lease);
  v.option("secret", b.secret);
  v.field("fence", b.fence);
  v.field("base", b.base);
  v.field("expires_at", b.expires_at);
  v.option("heartbeat_seconds", b.heartbeat_seconds);
}

#define CAIRN_API_TYPE(T)                                                                        \
  template <>                                                                                    \
  std::string to_json<T>(const T& value) { return encode_document(value); }                      \
  template <>                                                                                    \
  Result<T> request_from_json<T>(std::string_view text) {                                        \
    return decode_document<T>(text, true, kRequestBytesMax);                                     \
  }                                                                                              \
  template <>                                                                                    \
  Result<T> answer_from_json<T>(std::string_view text) {                                         \
    return decode_document<T>(text, false, kAnswerBytesMax);                                     \
  }

}  // namespace cairn::api
