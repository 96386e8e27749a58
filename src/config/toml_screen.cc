#include "config/toml_screen.h"

namespace cairn::config {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

class Screen {
 public:
  explicit Screen(std::string_view text) : text_(text) {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;
  }

  std::optional<uint32_t> run() {
    while (at_ < text_.size() && !stray_) {
      char c = text_[at_];
      if (c == '#') {
        skip_to_line_end();
      } else if (c == '"' || c == '\'') {
        skip_string(c);
      } else {
        step();
        stray_ = stray_ || static_cast<unsigned char>(c) >= 0x80;
      }
    }
    return stray_ ? std::optional<uint32_t>(line_) : std::nullopt;
  }

 private:
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
};

}  // namespace

std::optional<uint32_t> line_of_stray_character(std::string_view text) { return Screen(text).run(); }

}  // namespace cairn::config
