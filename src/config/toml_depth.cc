#include "config/toml_depth.h"

#include <vector>

namespace cairn::config {
namespace {

class Levels {
 public:
  explicit Levels(std::string_view text) : text_(text) {}

  std::optional<uint32_t> run() {
    while (at_ < text_.size()) {
      char c = text_[at_];
      if (c == '#') {
        skip_to_line_end();
      } else if (c == '"' || c == '\'') {
        skip_string(c);
      } else {
        follow(c);
        if (header_ + opened_ + key_ > kTomlDepthMax) return line_;
        step();
      }
    }
    return std::nullopt;
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
    while (at_ < text_.size()) {
      char c = text_[at_];
      if (c == '\n' && !multi_line) return;  // not closed: no TOML
      if (c == quote && !multi_line) return step();
      if (multi_line && text_.substr(at_).starts_with(three)) {
        at_ += 3;
        while (at_ < text_.size() && text_[at_] == quote) ++at_;  // quotes that belong to the text
        return;
      }
      step();
      if (c == '\\' && quote == '"' && at_ < text_.size()) step();
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  uint32_t line_ = 1;

  size_t header_ = 0;         // levels of the [header] above
  size_t key_ = 0;            // dots of the key at hand
  size_t opened_ = 0;         // levels of the brackets in open_, with those of the keys before them
  std::vector<size_t> open_;
  bool in_header_ = false;
  bool in_value_ = false;
};

}  // namespace

std::optional<uint32_t> too_deep_toml(std::string_view text) { return Levels(text).run(); }

}  // namespace cairn::config
