#include "config/training_sections.h"

namespace cairn::config {
namespace {

constexpr int64_t kCheckpointsMax = 100'000;

void read_count(TomlSection section, const std::string& key, std::optional<int64_t>& value, int64_t max) {
  int64_t number = 0;
  if (section.number(key, number, 1, max)) value = number;
}

void read_keep_best(TomlSection section, std::optional<KeepBest>& keep_best) {
  KeepBest best;
  best.metric = "val/loss";
  section.choice("metric", best.metric, {"val/loss", "val/perplexity", "loss/mean", "loss/perplexity"});
  section.number("n", best.n, 1, kCheckpointsMax);
  std::string mode = "min";
  section.choice("mode", mode, {"min", "max"});
  best.lowest = mode == "min";
  keep_best = best;
}

}  // namespace

void read_checkpoints(TomlSection section, CheckpointSettings& ckpt) {
  if (section.has("output_dir")) {
    section.complain("output_dir", "is set by Cairn: checkpoints lie in the run's own folder", "leave it out");
  }
  refuse_unbuilt(section, "ckpt");
  read_count(section, "interval", ckpt.interval, kStepsMax);
  read_count(section, "keep_last", ckpt.keep_last, kCheckpointsMax);
  read_count(section, "keep_interval", ckpt.keep_interval, kStepsMax);
  bool best = section.has("keep_best");
  TomlSection keep_best = section.section("keep_best");
  if (best) read_keep_best(keep_best, ckpt.keep_best);
  section.boolean("skip_progress", ckpt.skip_progress);
  section.boolean("skip_scheduler", ckpt.skip_scheduler);
  section.boolean("skip_dataloader", ckpt.skip_dataloader);
  section.boolean("skip_optimizer", ckpt.skip_optimizer);
}

void read_resume(TomlSection section, ResumeSettings& resume) {
  read_count(section, "step", resume.step, kStepsMax);
  section.text("dir", resume.dir);
}

void read_deployment(TomlSection section, TrainingConfig& config) {
  int64_t& num_processes = config.num_processes;
  std::string type = "single_node";
  section.choice("type", type, {"single_node", "multi_node"});
  if (type == "multi_node") section.refuse("type", "is \"multi_node\": a run uses one node", "accepted: \"single_node\"");
  refuse_unbuilt(section, "deployment");
  int64_t unused = 0;
  int64_t gpus_per_node = 8;
  config.gpus_named = section.number("num_train_gpus", num_processes, 1, kProcessesMax);
  section.number("gpus_per_node", gpus_per_node, 1, kProcessesMax);
  section.number("num_infer_gpus", unused, 0, kProcessesMax);
  if (num_processes > gpus_per_node) {
    section.complain("num_train_gpus", "is " + std::to_string(num_processes) + ", more than the " + std::to_string(gpus_per_node) +
                                           " GPUs of a node (gpus_per_node)");
  }
}

void read_monitors(TomlSection monitors, TomlSection log, MonitorSettings& settings) {
  refuse_unbuilt(monitors, "monitors");
  if (monitors.is_table("file")) {
    refuse_unbuilt(monitors.section("file"), "monitors.file");
  } else {
    monitors.boolean("file", settings.file);
  }
  monitors.boolean("tensorboard", settings.tensorboard);
  refuse_unbuilt(log, "log");
  log.choice("level", settings.level, {"debug", "info", "warning", "error"});
  log.boolean("json_logging", settings.json_logging);
  log.number("interval", settings.interval, 1, kStepsMax);
  std::vector<int64_t> ranks{0};
  log.numbers("ranks_filter", ranks, 0, kProcessesMax);
  if (ranks != std::vector<int64_t>{0}) log.refuse("ranks_filter", "is another list than [0]: the first process logs for all");
}

}  // namespace cairn::config
