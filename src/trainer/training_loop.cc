#include "trainer/training_loop.h"

#include <cmath>

#include <fmt/format.h>

#include "codec/digest.h"

namespace cairn::trainer {

int64_t rows_per_step(const config::TrainingConfig& config) { return config.data.batch_size / config.data.micro_batch_size; }
int64_t tokens_per_step(const config::TrainingConfig& config) { return config.data.batch_size * config.data.seq_len; }

namespace {

constexpr int kPassedOverMax = 10;

// What a resumed run has in common with the one before it.
config::TrainingConfig lasting(config::TrainingConfig config) {
  config.resume.reset();
  config.max_steps.reset();
  return config;
}

// What of the step is no number; empty when all is well. Sums over all processes: they all see the same.
std::string what_is_not_finite(const StepSums& sums, double gradient_norm) {
  if (sums.targets == 0 && sums.nan_rows > 0) {
    return fmt::format("the loss is not finite in any of its rows that teach something ({:.0f})", sums.nan_rows);
  }
  if (std::isfinite(gradient_norm)) return {};
  return fmt::format("the gradient norm is {}, with a loss of {:.4f}", gradient_norm, sums.mean_loss().value_or(std::nan("")));
}

}  // namespace

std::string config_fingerprint(const config::TrainingConfig& config) {
  return codec::sha256(codec::as_bytes(config::resolved_training_config(lasting(config)))).hex();
}

std::string recorded_config(const config::TrainingConfig& config) {
  config::TrainingConfig recorded = lasting(config);
  recorded.env_vars.clear();
  return config::resolved_training_config(recorded);
}

TrainingLoop::TrainingLoop(const LoopParts& parts, TrainingState start, std::optional<int64_t> total_schedule_steps)
    : parts_(parts),
      config_(parts.config),
      state_(std::move(start)),
      step_(parts.model, parts.rows, parts.group, parts.stop, rows_per_step(parts.config)),
      schedule_(parts.config.scheduler, parts.config.optim.lr, total_schedule_steps),
      throughput_(parts.clock),
      saved_step_(state_.step),
      samples_before_(state_.total_samples - parts.rows.progress().samples),
      config_sha256_(config_fingerprint(parts.config)),
      recorded_config_(recorded_config(parts.config)) {}

Result<LoopEnd> TrainingLoop::run() {
  bool stopped = false;
  while (!at_end() && !stopped) {
    Duration start = parts_.clock.monotonic();
    std::string cursor = parts_.rows.cursor();
    Outcome outcome;
    CAIRN_TRY(outcome.sums, step_.accumulate());
    stopped = outcome.sums.stop;
    bool whole = !outcome.sums.abandoned;
    if (whole && wants_validation(state_.step + 1)) {
      CAIRN_TRY(whole, stopped ? Result<bool>(false) : validate(state_.step + 1));
    }
    if (!whole) {
      CAIRN_CHECK_OK(give_up_step(cursor));
      break;
    }
    CAIRN_CHECK_OK(update(outcome));
    outcome.forward_backward_seconds = since(start);
    count(outcome);
    outcome.step_seconds = since(start);
    report(outcome);
    CAIRN_CHECK_OK(save_where_due(stopped || at_end()));
  }
  if (at_end() && !learnt_ && passed_over_ > 0) return diverged(wrong_ + "; so it was in every step");
  if (at_end()) return LoopEnd::kFinished;
  CAIRN_CHECK_OK(save_where_due(true));
  parts_.log.warning(fmt::format("stopped on request after step {}; resume goes on at step {}", state_.step, state_.step + 1));
  return LoopEnd::kStopped;
}

bool TrainingLoop::at_end() const { return config_.max_steps && state_.step >= *config_.max_steps; }

bool TrainingLoop::wants_validation(int64_t step) const {
  if (parts_.validation == nullptr) return false;
  if (step == 1) return config_.val->eval_on_start;
  return step % config_.val->interval == 0;
}

Result<bool> TrainingLoop::validate(int64_t step) {
  parts_.log.debug(fmt::format("Step {} | measuring the held-out loss", step));
  CAIRN_TRY(std::optional<double> loss, parts_.validation->mean_loss(parts_.model, parts_.group, parts_.stop));
  if (!loss) return false;
  remember("val/loss", "val/perplexity", *loss);
  if (!parts_.group.is_first()) return true;
  parts_.log.success(validation_line(step, *loss));
  parts_.metrics.write(step, {{"val/loss", *loss}, {"val/perplexity", perplexity(*loss)}});
  return true;
}

Status TrainingLoop::give_up_step(const std::string& cursor) {
  parts_.model.zero_gradients();
  return parts_.rows.restore(cursor);
}

// Clips and updates. A step without a target, or without a finite loss and gradient, changes no weight.
Status TrainingLoop::update(Outcome& outcome) {
  outcome.lr = schedule_.lr_at(state_.schedule_index);
  double scale = outcome.sums.targets > 0 ? 1 / outcome.sums.targets : 0;
  CAIRN_TRY(outcome.gradient_norm, step_.gradient_norm(scale));
  std::string wrong = what_is_not_finite(outcome.sums, outcome.gradient_norm);
  if (!wrong.empty()) {
    CAIRN_CHECK_OK(pass_over(outcome, wrong));
  } else if (outcome.sums.targets == 0) {
    parts_.log.warning(fmt::format("step {}: data.loss_mask leaves nothing to learn in its rows; the weights stay as they were",
                                   state_.step + 1));
  } else {
    double clip = config_.optim.max_norm ? std::min(1.0, *config_.optim.max_norm / (outcome.gradient_norm + 1e-6)) : 1.0;
    CAIRN_CHECK_OK(parts_.optimizer.step(outcome.lr, scale * clip));
    parts_.model.parameters_changed();
    passed_over_ = 0;
    learnt_ = true;
  }
  parts_.model.zero_gradients();
  return ok();
}

// One bad batch in a month costs its step; a training that is lost does not find back.
Status TrainingLoop::pass_over(Outcome& outcome, const std::string& wrong) {
  if (outcome.sums.nan_rows == 0) ++outcome.sums.nan_rows;
  wrong_ = fmt::format("step {} at a learning rate of {:.2e}: {}", state_.step + 1, outcome.lr, wrong);
  parts_.log.warning(wrong_ + "; the weights stay as they were");
  if (++passed_over_ < kPassedOverMax) return ok();
  return diverged(fmt::format("{}; so it was in the last {} steps", wrong_, passed_over_));
}

Error TrainingLoop::diverged(const std::string& what) const {
  std::string kept = "there is no checkpoint of this run";
  auto complete = parts_.checkpoints.complete();
  if (complete && !complete->empty()) kept = fmt::format("the last checkpoint is {}", complete->back().folder);
  return Error(Code::kTrainingDiverged, fmt::format("{}; {}", what, kept),
               "lower optim.lr, warm up for longer (scheduler.warmup_steps) or clip harder (optim.max_norm), and begin again or [resume] "
               "from an earlier checkpoint");
}

void TrainingLoop::count(Outcome& outcome) {
  ++state_.step;
  ++state_.schedule_index;
  state_.total_tokens += tokens_per_step(config_);
  state_.total_samples = samples_before_ + parts_.rows.progress().samples;
  if (auto loss = outcome.sums.mean_loss()) remember("loss/mean", "loss/perplexity", *loss);
  throughput_.add(tokens_per_step(config_));
}

void TrainingLoop::remember(const char* loss_name, const char* perplexity_name, double loss) {
  if (!std::isfinite(loss)) return;
  state_.last_metrics[loss_name] = loss;
  state_.last_metrics[perplexity_name] = perplexity(loss);
}

void TrainingLoop::report(const Outcome& outcome) {
  if (!parts_.group.is_first()) return;
  double loss = outcome.sums.mean_loss().value_or(std::nan(""));
  double speed = throughput_.tokens_per_second();
  double processes = static_cast<double>(parts_.group.size());
  StepLine line;
  line.step = state_.step;
  line.seconds = outcome.step_seconds;
  line.loss = loss;
  line.gradient_norm = outcome.gradient_norm;
  line.lr = outcome.lr;
  line.tokens_per_second = speed;
  line.mfu_percent = parts_.device.mfu_percent(speed / processes, parts_.model.spec(), config_.data.seq_len);
  line.peak_memory_gib = parts_.device.peak_memory_gib();
  line.total_memory_gib = parts_.device.total_memory_gib();
  parts_.log.success(step_line(line));
  if (state_.step % config_.monitors.interval == 0) report_progress();

  dataset::RowProgress progress = parts_.rows.progress();
  parts_.metrics.write(state_.step, {{"progress/epoch", static_cast<double>(progress.epoch)},
                                     {"progress/num_samples", static_cast<double>(state_.total_samples)},
                                     {"progress/num_tokens", static_cast<double>(state_.total_tokens)},
                                     {"progress/skipped_samples", static_cast<double>(progress.skipped_samples)}});
  parts_.metrics.write(state_.step, {{"perf/throughput", speed},
                                     {"perf/throughput_per_gpu", speed / processes},
                                     {"perf/mfu", line.mfu_percent},
                                     {"perf/peak_memory", line.peak_memory_gib}});
  parts_.metrics.write(state_.step, {{"optim/lr", outcome.lr}, {"optim/grad_norm", outcome.gradient_norm}});
  parts_.metrics.write(state_.step,
                       {{"loss/mean", loss}, {"loss/perplexity", perplexity(loss)}, {"loss/nan_count", outcome.sums.nan_rows}});
  parts_.metrics.write(state_.step,
                       {{"time/step", outcome.step_seconds}, {"time/forward_backward", outcome.forward_backward_seconds}});
}

void TrainingLoop::report_progress() {
  if (!config_.max_steps) return parts_.log.progress(fmt::format("Progress | {} steps", state_.step));
  int64_t left = *config_.max_steps - state_.step;
  double speed = throughput_.tokens_per_second();
  std::string time = speed > 0 ? ", " + short_time(static_cast<double>(left) * static_cast<double>(tokens_per_step(config_)) / speed) + " left" : "";
  double share = 100 * static_cast<double>(state_.step) / static_cast<double>(*config_.max_steps);
  parts_.log.progress(fmt::format("Progress | {} of {} steps ({:.1f}%){}", state_.step, *config_.max_steps, share, time));
}

double TrainingLoop::since(Duration start) const {
  return std::chrono::duration<double>(parts_.clock.monotonic() - start).count();
}

}  // namespace cairn::trainer
