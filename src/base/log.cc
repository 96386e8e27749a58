#include "base/log.h"

#include <memory>

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace cairn {
namespace {

constexpr char kPattern[] = "%Y-%m-%dT%H:%M:%S.%eZ %l %v";

std::shared_ptr<spdlog::logger> make_logger(spdlog::sink_ptr sink) {
  auto logger = std::make_shared<spdlog::logger>("cairn", std::move(sink));
  logger->set_pattern(kPattern, spdlog::pattern_time_type::utc);
  logger->flush_on(spdlog::level::info);
  return logger;
}

std::shared_ptr<spdlog::logger>& logger() {
  static auto instance = make_logger(std::make_shared<spdlog::sinks::stderr_sink_mt>());
  return instance;
}

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarning: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
  }
  return spdlog::level::err;
}

}  // namespace

void set_log_level(LogLevel level) { logger()->set_level(level_of(level)); }

void set_log_file(const std::string& path) {
  auto level = logger()->level();
  logger() = make_logger(std::make_shared<spdlog::sinks::basic_file_sink_mt>(path));
  logger()->set_level(level);
}

void log_line(LogLevel level, std::string_view text) { logger()->log(level_of(level), text); }

}  // namespace cairn
