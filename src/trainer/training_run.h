// One process's part in a run: checks everything before the first step, makes or resumes what the loop works on, and runs it.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "config/training_config.h"
#include "trainer/process_group.h"
#include "trainer/stop_request.h"

namespace cairn::trainer {

struct RunPlan {
  config::TrainingConfig config;
  Membership membership;
  std::string volume_root;
  std::string output_dir;
  int threads = 0;  // of this process; 0: as the environment says, else its share of the CPUs
};

// The exit code: 0 at the end of training, kExitStopped after a request to end.
Result<int> run_training(const RunPlan& plan, StopRequest& stop, Clock& clock);

// SHA-256 of what decides the numbers of a run: the resolved config without `resume` and `max_steps`, which differ whenever a run is
// resumed.
std::string config_fingerprint(const config::TrainingConfig& config);
// That config as text, for checkpoints: without env_vars, too.
std::string recorded_config(const config::TrainingConfig& config);

// Rows of one optimizer step, each of micro_batch_size x seq_len tokens.
int64_t rows_per_step(const config::TrainingConfig& config);

}  // namespace cairn::trainer
