#include "run/engines.h"

#include <set>

#include <fmt/format.h>

#include "volume/names.h"

namespace cairn::run {
namespace {

std::string known_engines(const Engines& engines) {
  std::string names = std::string("engines here: ") + kBuiltinEngine + " (built in)";
  for (const auto& [name, command] : engines.templates) names += ", " + name;
  return names;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

}  // namespace

Result<std::string> choose_engine(const Engines& engines, std::string_view wanted) {
  std::string name(wanted);
  if (name.empty()) name = engines.default_engine.empty() ? kBuiltinEngine : engines.default_engine;
  if (name != kBuiltinEngine && !engines.templates.contains(name)) {
    return Error(Code::kConfigUnsupported, fmt::format("engine '{}' is not known here; {}", name, known_engines(engines)),
                 "the operator adds engines in the server's configuration under [engines]");
  }
  return name;
}

Result<std::vector<std::string>> engine_command(const Engines& engines, std::string_view engine, const EngineValues& values) {
  if (engine == kBuiltinEngine) {
    return std::vector<std::string>{"cairn-trainer", values.config, "--volume-root", values.volume, "--output-dir", values.output};
  }
  auto found = engines.templates.find(std::string(engine));
  if (found == engines.templates.end() || found->second.empty()) {
    return Error(Code::kConfigUnsupported, fmt::format("engine '{}' is not known here; {}", engine, known_engines(engines)));
  }
  std::vector<std::string> command;
  for (std::string word : found->second) {
    replace_all(word, "{config}", values.config);
    replace_all(word, "{output}", values.output);
    replace_all(word, "{volume}", values.volume);
    replace_all(word, "{gpus}", std::to_string(values.gpus));
    command.push_back(std::move(word));
  }
  return command;
}

std::vector<std::string> shell_command(const std::vector<std::string>& command) {
  if (command.size() != 1) return command;
  return {"/bin/sh", "-c", command[0]};
}

std::vector<std::string> mounts_in_command(const std::vector<std::string>& command) {
  constexpr std::string_view kPrefix = "/mnt/";
  std::set<std::string> names;
  for (const std::string& word : command) {
    for (size_t at = word.find(kPrefix); at != std::string::npos; at = word.find(kPrefix, at + 1)) {
      // "/data/mnt/x" is another folder.
      if (at > 0) {
        char before = word[at - 1];
        bool inside_path = (before >= 'a' && before <= 'z') || (before >= 'A' && before <= 'Z') ||
                           (before >= '0' && before <= '9') || before == '.' || before == '_' || before == '-' ||
                           before == '/' || before == '}' || before == '~';
        if (inside_path) continue;
      }
      size_t begin = at + kPrefix.size();
      size_t end = begin;
      while (end < word.size() && ((word[end] >= 'a' && word[end] <= 'z') || (word[end] >= '0' && word[end] <= '9') ||
                                   word[end] == '-')) {
        ++end;
      }
      // "/mnt/Name" and "/mnt/a.b" name no volume.
      if (end < word.size() && ((word[end] >= 'A' && word[end] <= 'Z') || word[end] == '_' || word[end] == '.' ||
                                word[end] == '$' || word[end] == '*' || word[end] == '?' || word[end] == '{')) {
        continue;
      }
      std::string name = word.substr(begin, end - begin);
      if (volume::check_volume_name(name)) names.insert(std::move(name));
    }
  }
  return {names.begin(), names.end()};
}

}  // namespace cairn::run
