#include "config/training_difference.h"

#include <nlohmann/json.hpp>

#include "codec/json_depth.h"

namespace cairn::config {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kDepthMax = 16;
constexpr size_t kShownBytesMax = 60;

Json parsed(std::string_view text) {
  if (codec::json_deeper_than(text, kDepthMax)) return nullptr;
  Json json = Json::parse(text, nullptr, false);
  return json.is_object() ? json : Json(nullptr);
}

std::string shown(const Json* value) {
  if (value == nullptr || value->is_null()) return "not set";
  std::string text = value->dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kShownBytesMax) text = text.substr(0, kShownBytesMax) + "…";
  return text;
}

const Json* member(const Json& json, const std::string& key) {
  auto found = json.find(key);
  return found == json.end() ? nullptr : &*found;
}

bool is_same(const Json* then, const Json* now) {
  bool nothing_then = then == nullptr || then->is_null(), nothing_now = now == nullptr || now->is_null();
  return nothing_then || nothing_now ? nothing_then == nothing_now : *then == *now;
}

void compare(const std::string& key, const Json* then, const Json* now, std::vector<std::string>& found);

// REQUIRES: both are objects.
void compare_members(const std::string& prefix, const Json& then, const Json& now, std::vector<std::string>& found) {
  for (const auto& [key, value] : now.items()) compare(prefix + key, member(then, key), &value, found);
  for (const auto& [key, value] : then.items()) {
    if (member(now, key) == nullptr) compare(prefix + key, &value, nullptr, found);
  }
}

void compare(const std::string& key, const Json* then, const Json* now, std::vector<std::string>& found) {
  if (is_same(then, now)) return;
  if (then != nullptr && now != nullptr && then->is_object() && now->is_object()) return compare_members(key + ".", *then, *now, found);
  found.push_back(key + " was " + shown(then) + " and is " + shown(now));
}

}  // namespace

std::vector<std::string> config_differences(std::string_view then, std::string_view now) {
  std::vector<std::string> found;
  Json old = parsed(then), fresh = parsed(now);
  if (old.is_object() && fresh.is_object()) compare_members("", old, fresh, found);
  return found;
}

}  // namespace cairn::config
