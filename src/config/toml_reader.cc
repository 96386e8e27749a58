#include "config/toml_reader.h"

#include <algorithm>
#include <optional>
#include <set>
#include <stdexcept>

#include <fmt/format.h>

// toml++ 3.3 asserts, and with NDEBUG even assumes, what a broken file can break: "[(x]" is one. Here its checks throw.
namespace {
[[noreturn]] void fail_toml_check() { throw std::invalid_argument("not TOML: a key or value begins with a character it cannot have"); }
}  // namespace
#undef NDEBUG
#define TOML_ASSERT(expr) static_cast<void>((expr) || (fail_toml_check(), false))
#include <toml++/toml.h>

#include "base/error.h"
#include "base/quantity.h"
#include "config/nearest.h"
#include "config/toml_screen.h"

namespace cairn::config {

struct TomlReader::State {
  struct Visited {
    const toml::table* table;  // null: the file does not have it
    std::string prefix;        // "tls."
    std::set<std::string> known;
    bool ignored = false;
  };

  std::string file;
  toml::table root;
  std::vector<Visited> visited;
  std::optional<Error> error;

  size_t visit(const toml::table* table, std::string prefix) {
    for (size_t i = 0; i < visited.size(); ++i) {
      if (visited[i].prefix == prefix) return i;
    }
    visited.push_back({table, std::move(prefix), {}, false});
    return visited.size() - 1;
  }

  Error make_error(uint32_t line, const std::string& what, const std::string& hint, Code code = Code::kConfigInvalid) const {
    std::string place = file + (line == 0 ? "" : ", line " + std::to_string(line));
    return Error(code, place + ": " + what, hint);
  }

  void complain(uint32_t line, const std::string& what, const std::string& hint = {}, Code code = Code::kConfigInvalid) {
    if (!error) error = make_error(line, what, hint, code);
  }

  // The node of a key that is asked for, which thereby is known.
  const toml::node* ask(size_t index, const std::string& key) {
    Visited& section = visited[index];
    section.known.insert(key);
    return section.table == nullptr ? nullptr : section.table->get(key);
  }

  void wrong_type(size_t index, const std::string& key, const toml::node& node, const char* wanted) {
    complain(node.source().begin.line, "'" + visited[index].prefix + key + "' must be " + wanted);
  }
};

TomlReader::TomlReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
TomlReader::~TomlReader() = default;
TomlReader::TomlReader(TomlReader&&) noexcept = default;
TomlReader& TomlReader::operator=(TomlReader&&) noexcept = default;

Result<TomlReader> TomlReader::parse(std::string_view text, std::string file) {
  auto state = std::make_unique<State>();
  state->file = std::move(file);
  if (text.size() > kTomlBytesMax) return state->make_error(0, "the file is larger than 1 MiB", "");
  if (auto flaw = screen_toml(text)) {
    const bool deep = flaw->kind == TomlFlaw::Kind::kTooDeep;
    return state->make_error(flaw->line,
                             deep ? fmt::format("tables and lists stand within each other more than {} deep", kTomlDepthMax)
                                  : "a character stands outside of quotes that TOML allows only in them, or begins a continued line",
                             "");
  }
  try {
    state->root = toml::parse(text);
  } catch (const toml::parse_error& error) {
    return state->make_error(error.source().begin.line, std::string(error.description()), "");
  } catch (const std::exception& error) {
    return state->make_error(0, error.what(), "");
  }
  state->visit(&state->root, "");
  return TomlReader(std::move(state));
}

TomlSection TomlReader::top() { return TomlSection(*state_, 0); }

Status TomlReader::finish() {
  if (state_->error) return *state_->error;
  // The unknown key that stands first in the file.
  const State::Visited* where = nullptr;
  std::string unknown;
  uint32_t line = 0;
  for (const auto& section : state_->visited) {
    if (section.table == nullptr || section.ignored) continue;
    for (const auto& [key, node] : *section.table) {
      std::string name(key.str());
      if (section.known.contains(name)) continue;
      uint32_t at = key.source().begin.line;
      if (where != nullptr && at >= line) continue;
      where = &section;
      unknown = name;
      line = at;
    }
  }
  if (where == nullptr) return ok();
  std::vector<std::string> known(where->known.begin(), where->known.end());
  auto nearest = nearest_word(unknown, known);
  std::string hint;
  if (nearest) {
    hint = "did you mean '" + where->prefix + *nearest + "'?";
  } else if (!known.empty()) {
    for (const std::string& word : known) hint += (hint.empty() ? "known here: " : ", ") + word;
  }
  return state_->make_error(line, "unknown key '" + where->prefix + unknown + "'", hint);
}

bool TomlSection::text(const std::string& key, std::string& value) {
  const toml::node* node = state_->ask(index_, key);
  if (node == nullptr) return false;
  auto text = node->value_exact<std::string>();
  if (!text || text->find('\0') != std::string::npos) {
    state_->wrong_type(index_, key, *node, "a text");
    return false;
  }
  value = *std::move(text);
  return true;
}

bool TomlSection::boolean(const std::string& key, bool& value) {
  const toml::node* node = state_->ask(index_, key);
  if (node == nullptr) return false;
  auto flag = node->value_exact<bool>();
  if (!flag) {
    state_->wrong_type(index_, key, *node, "true or false");
    return false;
  }
  value = *flag;
  return true;
}

bool TomlSection::number(const std::string& key, int64_t& value, int64_t min, int64_t max) {
  const toml::node* node = state_->ask(index_, key);
  if (node == nullptr) return false;
  auto number = node->value_exact<int64_t>();
  if (!number || *number < min || *number > max) {
    std::string wanted = "a whole number from " + std::to_string(min) + " to " + std::to_string(max);
    state_->wrong_type(index_, key, *node, wanted.c_str());
    return false;
  }
  value = *number;
  return true;
}

bool TomlSection::real(const std::string& key, double& value, double min, double max) {
  const toml::node* node = state_->ask(index_, key);
  if (node == nullptr) return false;
  auto number = node->value_exact<double>();
  if (auto whole = node->value_exact<int64_t>()) number = static_cast<double>(*whole);
  // Written so that nan is refused too.
  if (!number || !(*number >= min && *number <= max)) {
    state_->wrong_type(index_, key, *node, fmt::format("a number from {} to {}", min, max).c_str());
    return false;
  }
  value = *number;
  return true;
}

bool TomlSection::choice(const std::string& key, std::string& value, const std::vector<std::string>& words) {
  const toml::node* node = state_->ask(index_, key);
  if (node == nullptr) return false;
  auto text = node->value_exact<std::string>();
  if (text && std::find(words.begin(), words.end(), *text) != words.end()) {
    value = *std::move(text);
    return true;
  }
  std::string wanted = words.size() == 1 ? "" : "one of ";
  for (const std::string& word : words) wanted += (&word == &words[0] ? "\"" : ", \"") + word + "\"";
  auto nearest = nearest_word(text.value_or(""), words);
  std::string name = state_->visited[index_].prefix + key;
  state_->complain(line_of(key), "'" + name + "' must be " + wanted + ", not " + shown(key),
                   nearest && text ? "did you mean \"" + *nearest + "\"?" : "");
  return false;
}

bool TomlSection::size(const std::string& key, uint64_t& value) {
  const toml::node* node = state_->ask(index_, key);
  if (node == nullptr) return false;
  auto number = node->value_exact<int64_t>();
  if (number && *number >= 0) {
    value = static_cast<uint64_t>(*number);
    return true;
  }
  auto text = node->value_exact<std::string>();
  auto bytes = parse_size(text.value_or(""));
  if (!bytes) {
    state_->wrong_type(index_, key, *node, "a size like \"500Gi\" or a number of bytes");
    return false;
  }
  value = *bytes;
  return true;
}

bool TomlSection::duration(const std::string& key, Duration& value) {
  const toml::node* node = state_->ask(index_, key);
  if (node == nullptr) return false;
  auto span = parse_duration(node->value_exact<std::string>().value_or(""));
  if (!span) {
    state_->wrong_type(index_, key, *node, "a span of time like \"30m\" or \"7d\"");
    return false;
  }
  value = *span;
  return true;
}

bool TomlSection::texts(const std::string& key, std::vector<std::string>& value) {
  const toml::node* node = state_->ask(index_, key);
  if (node == nullptr) return false;
  const toml::array* array = node->as_array();
  std::vector<std::string> words;
  bool right = array != nullptr;
  if (right) {
    for (const toml::node& item : *array) {
      auto text = item.value_exact<std::string>();
      right = right && text && text->find('\0') == std::string::npos;
      if (right) words.push_back(*std::move(text));
    }
  }
  if (!right) {
    state_->wrong_type(index_, key, *node, "a list of texts");
    return false;
  }
  value = std::move(words);
  return true;
}

bool TomlSection::numbers(const std::string& key, std::vector<int64_t>& value, int64_t min, int64_t max) {
  const toml::node* node = state_->ask(index_, key);
  if (node == nullptr) return false;
  const toml::array* array = node->as_array();
  std::vector<int64_t> numbers;
  bool right = array != nullptr;
  if (right) {
    for (const toml::node& item : *array) {
      auto number = item.value_exact<int64_t>();
      right = right && number && *number >= min && *number <= max;
      if (right) numbers.push_back(*number);
    }
  }
  if (!right) {
    state_->wrong_type(index_, key, *node, fmt::format("a list of whole numbers from {} to {}", min, max).c_str());
    return false;
  }
  value = std::move(numbers);
  return true;
}

bool TomlSection::command(const std::string& key, std::vector<std::string>& value) {
  const toml::node* node = state_->ask(index_, key);
  if (node == nullptr) return false;
  if (node->is_array()) {
    if (!texts(key, value)) return false;
  } else {
    auto words = split_command(node->value_exact<std::string>().value_or(""));
    if (!words) {
      state_->wrong_type(index_, key, *node, ("a command: " + words.error().message()).c_str());
      return false;
    }
    value = *std::move(words);
  }
  if (!value.empty() && !value[0].empty()) return true;
  state_->wrong_type(index_, key, *node, "a command of at least one word");
  return false;
}

bool TomlSection::has(const std::string& key) const {
  const auto& section = state_->visited[index_];
  return section.table != nullptr && section.table->contains(key);
}

bool TomlSection::is_text(const std::string& key) const { return has(key) && state_->visited[index_].table->get(key)->is_string(); }

bool TomlSection::is_table(const std::string& key) const { return has(key) && state_->visited[index_].table->get(key)->is_table(); }

std::string TomlSection::shown(const std::string& key) const {
  if (!has(key)) return "nothing";
  constexpr size_t kShownMax = 60;
  const toml::node& node = *state_->visited[index_].table->get(key);
  if (auto text = node.value_exact<std::string>()) {
    size_t cut = std::min(text->size(), kShownMax);
    while (cut > 0 && cut < text->size() && (static_cast<uint8_t>((*text)[cut]) & 0xC0) == 0x80) --cut;
    return quote_toml(cut < text->size() ? text->substr(0, cut) + "..." : *text);
  }
  if (auto number = node.value_exact<int64_t>()) return std::to_string(*number);
  if (auto number = node.value_exact<double>()) return fmt::format("{}", *number);
  if (auto flag = node.value_exact<bool>()) return *flag ? "true" : "false";
  return node.is_table() ? "a table" : node.is_array() ? "a list" : "a date";
}

void TomlSection::know(const std::string& key) { static_cast<void>(state_->ask(index_, key)); }

TomlSection TomlSection::section(const std::string& key) {
  const toml::node* node = state_->ask(index_, key);
  std::string prefix = state_->visited[index_].prefix + key + ".";
  if (node != nullptr && !node->is_table()) {
    state_->wrong_type(index_, key, *node, ("a table: [" + prefix.substr(0, prefix.size() - 1) + "]").c_str());
    node = nullptr;
  }
  return TomlSection(*state_, state_->visit(node == nullptr ? nullptr : node->as_table(), std::move(prefix)));
}

std::vector<std::string> TomlSection::section_names() {
  std::vector<std::string> names;
  auto& section = state_->visited[index_];
  if (section.table == nullptr) return names;
  for (const auto& [key, node] : *section.table) {
    if (!node.is_table()) continue;
    names.emplace_back(key.str());
    section.known.insert(names.back());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> TomlSection::keys() const {
  std::vector<std::string> keys;
  const auto& section = state_->visited[index_];
  if (section.table == nullptr) return keys;
  for (const auto& [key, node] : *section.table) keys.emplace_back(key.str());
  return keys;
}

void TomlSection::ignore_rest() { state_->visited[index_].ignored = true; }

uint32_t TomlSection::line_of(const std::string& key) const {
  if (has(key)) return state_->visited[index_].table->get(key)->source().begin.line;
  const auto& section = state_->visited[index_];
  return section.table == nullptr || index_ == 0 ? 0 : section.table->source().begin.line;
}

void TomlSection::complain(const std::string& key, const std::string& what, const std::string& hint) {
  state_->complain(line_of(key), "'" + state_->visited[index_].prefix + key + "' " + what, hint);
}

void TomlSection::refuse(const std::string& key, const std::string& what, const std::string& hint) {
  know(key);
  state_->complain(line_of(key), "'" + state_->visited[index_].prefix + key + "' " + what, hint, Code::kConfigUnsupported);
}

Result<std::vector<std::string>> split_command(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (quote != '\'' && c == '\\' && i + 1 < text.size()) {
      word += text[++i];
      in_word = true;
    } else if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        word += c;
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      in_word = true;
    } else if (c == ' ' || c == '\t' || c == '\n') {
      if (in_word) words.push_back(std::move(word));
      word.clear();
      in_word = false;
    } else {
      word += c;
      in_word = true;
    }
  }
  if (quote != 0) return Error(Code::kConfigInvalid, "a quotation mark is not closed");
  if (in_word) words.push_back(std::move(word));
  return words;
}

std::string quote_toml(std::string_view text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string quoted = "\"";
  for (char c : text) {
    auto byte = static_cast<uint8_t>(c);
    if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (byte < 0x20 || byte == 0x7F) {
      quoted += "\\u00";
      quoted += {kDigits[byte >> 4], kDigits[byte & 15]};
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

}  // namespace cairn::config
