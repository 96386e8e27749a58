// `cairn-trainer CONFIG.toml`: everything between a config file and the training loop. One call trains to the end; with several
// processes it starts and watches them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace cairn::trainer {

struct TrainRequest {
  std::string config_file;
  std::string volume_root;  // where the config's paths begin
  std::string output_dir;
  std::optional<int> processes;      // else what the config says
  std::optional<int> threads;        // of each process; else OMP_NUM_THREADS, else the CPUs shared evenly
  std::vector<std::string> command;  // that started this process, for more of them
};

// The exit code: 0 when training reached its end, kExitStopped when it was asked to end and has saved; with several processes that
// of the one that failed. Errors are printed by the caller.
Result<int> train(const TrainRequest& request);

}  // namespace cairn::trainer
