#include "cli/logged_error.h"

#include <algorithm>
#include <string>

namespace cairn::cli {
namespace {

constexpr std::string_view kStart = "cairn: ";
constexpr std::string_view kHint = "  hint: ";

// Where the last line that begins with "cairn: " begins.
size_t last_start(std::string_view log) {
  for (size_t at = log.rfind(kStart); at != std::string_view::npos; at = log.rfind(kStart, at - 1)) {
    if (at == 0 || log[at - 1] == '\n') return at;
  }
  return std::string_view::npos;
}

}  // namespace

std::optional<Error> last_logged_error(std::string_view log) {
  size_t start = last_start(log);
  if (start == std::string_view::npos) return std::nullopt;
  std::string_view text = log.substr(start + kStart.size());
  // A message may have several lines; the code ends the last of them.
  for (size_t end = 0; end < text.size(); ++end) {
    end = std::min(text.find('\n', end), text.size());
    std::string_view message = text.substr(0, end);
    size_t open = message.rfind(" (");
    if (!message.ends_with(')') || open == std::string_view::npos) continue;
    std::optional<Code> code = code_from_wire(message.substr(open + 2, message.size() - open - 3));
    if (!code) continue;
    std::string_view rest = text.substr(std::min(end + 1, text.size()));
    std::string_view hint = rest.starts_with(kHint) ? rest.substr(kHint.size(), rest.find('\n') - kHint.size()) : std::string_view();
    return Error(*code, std::string(message.substr(0, open)), std::string(hint));
  }
  return std::nullopt;
}

}  // namespace cairn::cli
