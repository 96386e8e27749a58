#include "config/toml_screen.h"

#include <vector>

namespace cairn::config {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

class Screen {
 public:
  explicit Screen(std::string_view text) : text_(text) {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;
  }

  std::optional<TomlFlaw> run() {
    while (at_ < text_.size() && !stray_) {
      char c = text_[at_];
      if (c == '#') {
        skip_to_line_end();
      } else if (c == '"' || c == '\'') {
        skip_string(c);
      } else {
        follow(c);
        if (header_ + opened_ + key_ > kTomlDepthMax) return TomlFlaw{TomlFlaw::Kind::kTooDeep, line_};
        step();
        stray_ = static_cast<unsigned char>(c) >= 0x80;
      }
    }
    if (!stray_) return std::nullopt;
    return TomlFlaw{TomlFlaw::Kind::kStrayCharacter, line_};
  }

 private:
  // Counts levels. Every dot outside of quotes counts, those of numbers too: they are few, and a comma or a line ends them.
  // Brackets that do not pair mislead it, and toml++ goes no further than those.
  void follow(char c) {
    if (c == '.') {
      ++(in_header_ ? header_ : key_);
    } else if (c == '=') {
      in_value_ = true;
    } else if (c == '[' && !in_value_) {
      if (!in_header_) header_ = 0;
      in_header_ = true;
      ++header_;
    } else if (c == '[' || c == '{') {
      open_.push_back(key_ + 1);
      opened_ += open_.back();
      key_ = 0;
    } else if ((c == ']' || c == '}') && !open_.empty()) {
      opened_ -= open_.back();
      open_.pop_back();
      key_ = 0;
    } else if (c == ',') {
      key_ = 0;
    } else if (c == '\n' && open_.empty()) {
      in_header_ = in_value_ = false;
      key_ = 0;
    }
  }

  void step() {
    if (text_[at_] == '\n') ++line_;
    ++at_;
  }
  void skip_to_line_end() {
    while (at_ < text_.size() && text_[at_] != '\n') ++at_;
  }

  void skip_string(char quote) {
    const std::string_view three = quote == '"' ? "\"\"\"" : "'''";
    bool multi_line = text_.substr(at_).starts_with(three);
    at_ += multi_line ? 3 : 1;
    while (at_ < text_.size() && !stray_) {
      char c = text_[at_];
      if (c == '\n' && !multi_line) return;  // not closed: no TOML
      if (c == quote && !multi_line) return step();
      if (multi_line && text_.substr(at_).starts_with(three)) {
        at_ += 3;
        while (at_ < text_.size() && text_[at_] == quote) ++at_;  // quotes that belong to the text
        return;
      }
      step();
      if (c == '\\' && quote == '"' && at_ < text_.size()) skip_escaped();
    }
  }

  void skip_escaped() {
    if (!is_blank(text_[at_])) return step();
    while (at_ < text_.size() && is_blank(text_[at_])) step();
    stray_ = at_ < text_.size() && static_cast<unsigned char>(text_[at_]) >= 0x80;
  }

  std::string_view text_;
  size_t at_ = 0;
  uint32_t line_ = 1;
  bool stray_ = false;

  size_t header_ = 0;         // levels of the [header] above
  size_t key_ = 0;            // dots of the key at hand
  size_t opened_ = 0;         // levels of the brackets in open_, with those of the keys before them
  std::vector<size_t> open_;
  bool in_header_ = false;
  bool in_value_ = false;
};

}  // namespace

std::optional<TomlFlaw> screen_toml(std::string_view text) { return Screen(text).run(); }

}  // namespace cairn::config
