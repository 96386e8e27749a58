#include "cli/json_text.h"

#include <nlohmann/json.hpp>

namespace cairn::cli {

std::string json_quote(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

JsonText& JsonText::raw(std::string_view key, std::string_view json) {
  if (!text_.empty()) text_ += ", ";
  text_ += json_quote(key) + ": " + std::string(json);
  return *this;
}

std::string json_array(const std::vector<std::string>& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) text += (i ? ", " : "") + values[i];
  return text + "]";
}

}  // namespace cairn::cli
