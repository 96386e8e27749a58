// Logging for servers and agents: one line a fact, key=value pairs after the message, to stderr or a file. User-facing output
// of the command line never goes through here. Never log a token, a secret or a signed URL.
//
// Thread-safe.
#pragma once

#include <string>
#include <string_view>

#include <fmt/core.h>

namespace cairn {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Both may be called once at start; the default is stderr at kInfo.
void set_log_level(LogLevel level);
void set_log_file(const std::string& path);

void log_line(LogLevel level, std::string_view text);

template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kDebug, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kWarning, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kError, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace cairn
