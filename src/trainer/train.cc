#include "trainer/train.h"

#include <cstdlib>

#include <fmt/format.h>

#include "config/training_paths.h"
#include "os/file_system.h"
#include "trainer/launcher.h"
#include "trainer/training_run.h"

namespace cairn::trainer {
namespace {

constexpr size_t kConfigBytesMax = 1024 * 1024;

Result<config::TrainingConfig> read_config(const std::string& file) {
  CAIRN_TRY(std::string text, os::posix_file_system().read_file(file, kConfigBytesMax));
  return config::parse_training_config(text, file);
}

Status check_processes(const config::TrainingConfig& config, int processes) {
  int64_t rows = rows_per_step(config);
  if (processes < 1) return Error(Code::kUsage, "a run has at least one process");
  if (rows % processes != 0) {
    return Error(Code::kConfigInvalid,
                 fmt::format("data.batch_size / data.micro_batch_size = {} rows a step cannot be shared by {} processes", rows, processes),
                 "make batch_size a multiple of micro_batch_size times the number of processes");
  }
  return ok();
}

}  // namespace

Result<int> train(const TrainRequest& request) {
  CAIRN_TRY(config::TrainingConfig config, read_config(request.config_file));
  // What the run was started with goes over the file.
  for (const auto& [name, value] : config.env_vars) ::setenv(name.c_str(), value.c_str(), 0);
  CAIRN_TRY(std::optional<Membership> membership, membership_from_environment());
  int processes = membership ? membership->size : request.processes.value_or(static_cast<int>(config.num_processes));
  CAIRN_CHECK_OK(check_processes(config, processes));

  StopRequest& stop = signal_stop();
  if (!membership && processes > 1) {
    RunLog::Settings settings;
    settings.json = config.monitors.json_logging;
    CAIRN_TRY(RunLog log, RunLog::open(settings, system_clock()));
    return run_processes(request.command, processes, stop, log);
  }
  if (!membership) membership = Membership{};
  membership->timeout = seconds(config.dist_timeout_seconds);

  RunPlan plan;
  plan.config = std::move(config);
  plan.membership = *membership;
  plan.volume_root = request.volume_root;
  plan.output_dir = request.output_dir;
  plan.threads = request.threads.value_or(0);
  return run_training(plan, stop, system_clock());
}

}  // namespace cairn::trainer
