#include "trainer/run_log.h"

#include <unistd.h>

#include <ctime>

#include <nlohmann/json.hpp>

#include "codec/bytes.h"

namespace cairn::trainer {
namespace {

const char* level_name(LineLevel level) {
  switch (level) {
    case LineLevel::kDebug: return "DEBUG";
    case LineLevel::kInfo: return "INFO";
    case LineLevel::kSuccess: return "SUCCESS";
    case LineLevel::kWarning: return "WARNING";
    case LineLevel::kError: return "ERROR";
  }
  return "";
}

std::string local_time_of_day(Time time) {
  std::time_t whole = static_cast<std::time_t>(time.us / 1'000'000);
  std::tm parts{};
  localtime_r(&whole, &parts);
  return fmt::format("{:02}:{:02}:{:02}", parts.tm_hour, parts.tm_min, parts.tm_sec);
}

}  // namespace

LineLevel parse_line_level(std::string_view text) {
  if (text == "debug" || text == "trace") return LineLevel::kDebug;
  if (text == "success") return LineLevel::kSuccess;
  if (text == "warning" || text == "warn") return LineLevel::kWarning;
  if (text == "error" || text == "critical") return LineLevel::kError;
  return LineLevel::kInfo;
}

Result<RunLog> RunLog::open(const Settings& settings, Clock& clock) {
  RunLog log(clock);
  log.settings_ = settings;
  if (!settings.file.empty()) {
    CAIRN_TRY(log.file_, os::open_append_fd(settings.file, 0644));
  }
  return log;
}

void RunLog::error_to_file(std::string_view text) { line(LineLevel::kError, text, {}, true); }

void RunLog::line(LineLevel level, std::string_view text, std::string_view type, bool to_file_only) {
  if (level < settings_.least) return;
  Time now = clock_->now();
  std::string out;
  if (settings_.json) {
    nlohmann::ordered_json json;
    json["timestamp"] = to_rfc3339(now);
    json["level"] = level_name(level);
    json["message"] = text;
    json["module"] = "trainer";
    if (!type.empty()) json["type"] = type;
    out = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  } else {
    out = fmt::format("{} {:>7} {}", local_time_of_day(now), level_name(level), text);
  }
  out += '\n';
  if (settings_.to_stdout && !to_file_only) static_cast<void>(os::write_all(STDOUT_FILENO, codec::as_bytes(out), "standard output").has_value());
  if (file_.valid()) static_cast<void>(os::write_all(file_.get(), codec::as_bytes(out), settings_.file).has_value());
}

}  // namespace cairn::trainer
