// The training loop: steps until max_steps or a request to end, with validation, checkpoints, metrics and log lines in between.
// It owns nothing it works on; every process of a group runs one with the same settings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "config/training_config.h"
#include "trainer/checkpoint.h"
#include "trainer/device_facts.h"
#include "trainer/metrics.h"
#include "trainer/optimizer.h"
#include "trainer/process_group.h"
#include "trainer/run_log.h"
#include "trainer/schedule.h"
#include "trainer/stop_request.h"
#include "trainer/throughput.h"
#include "trainer/train_step.h"
#include "trainer/training_run.h"
#include "trainer/training_state.h"
#include "trainer/validation.h"

namespace cairn::trainer {

struct LoopParts {
  const config::TrainingConfig& config;
  Decoder& model;
  Optimizer& optimizer;
  dataset::RowSource& rows;
  Validation* validation;  // may be null
  ProcessGroup& group;
  Checkpoints& checkpoints;
  Metrics& metrics;
  RunLog& log;
  StopRequest& stop;
  Clock& clock;
  DeviceFacts& device;
  std::string model_folder;      // config.json and tokenizer are copied into checkpoints; both may be empty
  std::string tokenizer_folder;
};

enum class LoopEnd { kFinished, kStopped };

class TrainingLoop {
 public:
  // `total_schedule_steps` is what the schedule decays over. REQUIRES: rows_per_step(config) is divisible by the group's size.
  TrainingLoop(const LoopParts& parts, TrainingState start, std::optional<int64_t> total_schedule_steps);

  // A step without a finite loss or gradient norm changes nothing. training_diverged, in every process, after ten of them in a row,
  // when there were no others, and before weights that are not finite are saved.
  // On an error the last complete checkpoint is as it was; a request to end is answered with one of the step reached. A step whose
  // validation is due or under way then is given up: resumed, it is made again with it.
  Result<LoopEnd> run();
  const TrainingState& state() const { return state_; }

 private:
  // What one step came to, for its line and its metrics.
  struct Outcome {
    StepSums sums;
    double lr = 0;
    double gradient_norm = 0;
    double forward_backward_seconds = 0;
    double step_seconds = 0;
  };

  bool at_end() const;
  // Counts the step as one that changes nothing; training_diverged when it is one too many.
  Status pass_over(Outcome& outcome, const std::string& wrong);
  Status check_weights() const;
  // `what` says step and numbers.
  Error diverged(const std::string& what) const;
  bool wants_validation(int64_t step) const;
  // False when it was given up because a process was asked to end.
  Result<bool> validate(int64_t step);
  // Puts rows and gradients back to where the step began.
  Status give_up_step(const std::string& cursor);
  Status update(Outcome& outcome);
  void count(Outcome& outcome);
  // For the markers of checkpoints.
  void remember(const char* loss_name, const char* perplexity_name, double loss);
  void report(const Outcome& outcome);
  void report_progress();
  Status save_where_due(bool last);
  Status save();
  CheckpointContents contents() const;
  double since(Duration start) const;

  LoopParts parts_;
  const config::TrainingConfig& config_;
  TrainingState state_;
  TrainStep step_;
  Schedule schedule_;
  Throughput throughput_;
  int64_t saved_step_;
  int passed_over_ = 0;   // steps in a row without finite numbers
  std::string wrong_;     // what was wrong with the last of them
  bool learnt_ = false;   // some step changed the weights
  int64_t samples_before_;  // those of progress that the rows did not give since their beginning
  std::string config_sha256_, recorded_config_;
};

int64_t tokens_per_step(const config::TrainingConfig& config);

}  // namespace cairn::trainer
