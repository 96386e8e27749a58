#include "cli/terminal_text.h"

#include <algorithm>

#include "store/paths.h"

namespace cairn::cli {

std::string shown_path(std::string_view path) { return store::escape_for_display(path); }

std::string shown_words(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    size_t end = std::min(text.find('\\'), text.size());
    shown += store::escape_for_display(text.substr(0, end));
    if (end < text.size()) shown += text[end++];
    text.remove_prefix(end);
  }
  return shown;
}

std::string shown_text(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    size_t end = std::min(text.find_first_of("\n\t"), text.size());
    shown += shown_words(text.substr(0, end));
    if (end < text.size()) shown += text[end++];
    text.remove_prefix(end);
  }
  return shown;
}

}  // namespace cairn::cli
