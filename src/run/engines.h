// Engines: what executes a training config. One is built in ("cairn": the program cairn-trainer, which agents lay into every
// sandbox); the others are command templates of the operator. The config names one (`engine = "NAME"` before any table), else it
// is the operator's default, else the built-in one. A template is an argv in which {config} stands for the path of the config
// inside the sandbox, {output} for the run's output folder, {volume} for /volume and {gpus} for the number of GPUs.
//
// Pure functions.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cairn::run {

inline constexpr char kBuiltinEngine[] = "cairn";

struct Engines {
  std::map<std::string, std::vector<std::string>> templates;  // by name; none of the built-in one's
  std::string default_engine;                                  // empty: the built-in one
};

// The engine a config asks for. config_unsupported names those there are.
Result<std::string> choose_engine(const Engines& engines, std::string_view wanted);

struct EngineValues {
  std::string config;
  std::string output;
  std::string volume;
  int64_t gpus = 0;
};
// config_unsupported when the engine is not (any longer) configured.
Result<std::vector<std::string>> engine_command(const Engines& engines, std::string_view engine, const EngineValues& values);

// `command` as `cairn run` takes it: one argument runs by `sh -c`, several as they are.
std::vector<std::string> shell_command(const std::vector<std::string>& command);

// Volume names in `/mnt/<name>` as they appear in the command's words, sorted, each once; only valid volume names.
std::vector<std::string> mounts_in_command(const std::vector<std::string>& command);

}  // namespace cairn::run
