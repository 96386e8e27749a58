#include "cli/training_text.h"

#include <fmt/format.h>

#include "cli/output.h"
#include "config/training_paths.h"

namespace cairn::cli {
namespace {

std::string count(int64_t number) { return human_count(static_cast<uint64_t>(number)); }

std::string model_text(const config::TrainingConfig& config) {
  std::string text = config.model.name.empty() ? "the built-in smoke-test shape" : config.model.name;
  text += config.model.random_init ? fmt::format(", random weights of seed {}", config.seed) : ", its weights";
  if (config.model.num_layers > 0) text += fmt::format(", {} layers of it", config.model.num_layers);
  text += config.model.dtype == "auto" ? ", bfloat16 where the node has it" : ", " + config.model.dtype;
  return config.model.activation_checkpointing ? text + ", activations computed again" : text;
}

std::string source_text(const config::DataSettings& data) {
  std::string text = data.name;
  for (const std::string& path : data.paths) text += (text.empty() ? "" : ", ") + path;
  return text;
}

std::string data_text(const config::DataSettings& data) {
  if (data.kind == config::DataKind::kFake) return "made up (fake)";
  return source_text(data) + (data.shuffle ? fmt::format(", shuffled with seed {}", data.seed) : ", in order");
}

// Whatever val.data says of order and batches: the same rows each time, in order.
std::string validation_text(const config::ValidationSettings& val) {
  std::string rows = val.num_samples > 0 ? fmt::format("the first {} rows of ", count(val.num_samples)) : "";
  return fmt::format("every {} steps{} on {}{}, in order", val.interval, val.eval_on_start ? " and at the first" : "", rows, source_text(val.data));
}

std::string batch_text(const config::TrainingConfig& config) {
  const config::DataSettings& data = config.data;
  return fmt::format("{} rows of {} tokens a step ({} tokens), {} a pass, {}", count(data.batch_size), count(data.seq_len),
                     count(data.batch_size * data.seq_len), count(data.micro_batch_size),
                     config.num_processes == 1 ? "1 process" : count(config.num_processes) + " processes");
}

std::string optimizer_text(const config::OptimizerSettings& optim) {
  std::string name;
  switch (optim.kind) {
    case config::OptimizerKind::kAdamW: name = "adamw"; break;
    case config::OptimizerKind::kSgd: name = "sgd"; break;
    case config::OptimizerKind::kSignSgd: name = "sign_sgd"; break;
    case config::OptimizerKind::kMuon: name = "muon"; break;
  }
  return fmt::format("{}, lr {}, weight decay {}, {}", name, optim.lr, optim.weight_decay,
                     optim.max_norm ? fmt::format("gradient norm at most {}", *optim.max_norm) : "no clipping");
}

std::string schedule_text(const config::SchedulerSettings& scheduler) {
  switch (scheduler.kind) {
    case config::SchedulerKind::kConstant: return "constant";
    case config::SchedulerKind::kLinear:
      return fmt::format("linear, {} steps up, then {}", scheduler.warmup_steps,
                         scheduler.decay_steps == 0 ? "level" : fmt::format("level, the last {} down to {}", scheduler.decay_steps, scheduler.min_lr));
    case config::SchedulerKind::kCosine:
      return fmt::format("cosine, {} steps up, then down to {}", scheduler.warmup_steps, scheduler.min_lr);
  }
  return {};
}

std::string checkpoint_text(const std::optional<config::CheckpointSettings>& ckpt) {
  if (!ckpt) return "none (add [ckpt] to save the model)";
  std::string text = ckpt->interval ? fmt::format("every {} steps and at the end", *ckpt->interval) : "at the end";
  std::string kept;
  if (ckpt->keep_last) kept += fmt::format("the last {}", *ckpt->keep_last);
  if (ckpt->keep_interval) kept += (kept.empty() ? "" : ", ") + fmt::format("multiples of {}", *ckpt->keep_interval);
  if (ckpt->keep_best) kept += (kept.empty() ? "" : ", ") + fmt::format("the best {} by {}", ckpt->keep_best->n, ckpt->keep_best->metric);
  return text + ", keeping " + (kept.empty() ? "all" : kept);
}

}  // namespace

std::string training_text(const config::TrainingConfig& config) {
  std::string text;
  auto line = [&](const char* name, const std::string& value) { text += fmt::format("{:<12}{}\n", name, value); };
  line("mode", config.mode == config::TrainingMode::kSft ? "sft" : "pretrain");
  line("model", model_text(config));
  line("data", data_text(config.data));
  line("batch", batch_text(config));
  line("steps", config.max_steps ? count(*config.max_steps) : "until it is stopped");
  line("optimizer", optimizer_text(config.optim));
  line("schedule", schedule_text(config.scheduler));
  if (config.val) line("validation", validation_text(*config.val));
  line("checkpoints", checkpoint_text(config.ckpt));
  std::string reads;
  for (const config::TrainingPath& path : config::training_paths(config)) reads += (reads.empty() ? "" : ", ") + ("/volume/" + path.path);
  line("reads", reads.empty() ? "nothing: it runs without a volume" : reads);
  text.pop_back();
  return text;
}

}  // namespace cairn::cli
