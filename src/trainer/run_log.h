// What a training run says: lines on standard output and in the run's own log file, plain ("12:04:05 SUCCESS Step 1 | …", the level
// right-aligned to seven) or as one JSON object a line. Writing never fails the run: a full disk loses the line in the file only.
//
// Not thread-safe: the training thread speaks.
#pragma once

#include <string>
#include <string_view>

#include <fmt/core.h>

#include "base/clock.h"
#include "base/result.h"
#include "os/fd.h"

namespace cairn::trainer {

enum class LineLevel { kDebug, kInfo, kSuccess, kWarning, kError };

// "debug", "info", "success", "warning", "error" and what Python's loggers also call them; info for anything else.
LineLevel parse_line_level(std::string_view text);

class RunLog {
 public:
  struct Settings {
    LineLevel least = LineLevel::kInfo;
    bool json = false;
    bool to_stdout = true;
    std::string file;  // appended to; empty: none
  };
  static Result<RunLog> open(const Settings& settings, Clock& clock);
  // Standard output only, plain.
  explicit RunLog(Clock& clock) : clock_(&clock) {}

  void debug(std::string_view text) { line(LineLevel::kDebug, text); }
  void info(std::string_view text) { line(LineLevel::kInfo, text); }
  void success(std::string_view text) { line(LineLevel::kSuccess, text); }
  void warning(std::string_view text) { line(LineLevel::kWarning, text); }
  void error(std::string_view text) { line(LineLevel::kError, text); }
  // An error that the caller prints where people look: into the file alone.
  void error_to_file(std::string_view text);
  // An info line that log viewers may drop: "type": "progress" in JSON.
  void progress(std::string_view text) { line(LineLevel::kInfo, text, "progress"); }

 private:
  void line(LineLevel level, std::string_view text, std::string_view type = {}, bool to_file_only = false);

  Clock* clock_;
  Settings settings_;
  os::Fd file_;
};

}  // namespace cairn::trainer
