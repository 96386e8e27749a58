#include "trainer/end_token.h"

#include <nlohmann/json.hpp>

#include "codec/json_depth.h"
#include "os/file_system.h"

namespace cairn::trainer {
namespace {

constexpr size_t kConfigBytesMax = 16 * 1024 * 1024;  // chat templates and tables of added tokens lie in it, too
constexpr size_t kConfigDepthMax = 64;
constexpr const char* kUsualNames[] = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"};

// Its text: a string, or an object with the string as `content`.
std::optional<std::string> named_in_config(const std::string& folder) {
  auto text = os::posix_file_system().read_file(folder + "/tokenizer_config.json", kConfigBytesMax);
  if (!text || codec::json_deeper_than(*text, kConfigDepthMax)) return std::nullopt;
  auto json = nlohmann::json::parse(*text, nullptr, false);
  if (!json.is_object() || !json.contains("eos_token")) return std::nullopt;
  const nlohmann::json& token = json["eos_token"];
  const nlohmann::json& content = token.is_object() && token.contains("content") ? token["content"] : token;
  return content.is_string() ? std::optional(content.get<std::string>()) : std::nullopt;
}

}  // namespace

std::optional<uint32_t> end_token(const dataset::Tokenizer& tokenizer, const std::string& folder) {
  if (auto name = named_in_config(folder)) {
    if (auto id = tokenizer.id_of(*name)) return id;
  }
  for (const char* name : kUsualNames) {
    auto id = tokenizer.id_of(name);
    if (id && tokenizer.is_special(*id)) return id;
  }
  return std::nullopt;
}

}  // namespace cairn::trainer
