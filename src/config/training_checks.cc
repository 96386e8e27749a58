#include <fmt/format.h>

#include "config/training_paths.h"
#include "config/training_sections.h"

namespace cairn::config {
namespace {

constexpr size_t kFoldersMax = 1000;
constexpr char kOnVolume[] = "a path on the volume, like \"datasets/mine\" or \"/volume/datasets/mine\"";

void check_path(TomlSection section, const std::string& key, const std::string& spelled) {
  if (!section.has(key)) return;
  auto path = volume_path(spelled);
  if (!path) section.complain(key, "is " + path.error().message(), path.error().hint());
}

void check_model(TomlSection top, const TrainingConfig& config) {
  TomlSection model = top.section("model");
  bool smoke = config.data.kind == DataKind::kFake;
  if (config.model.name.empty() && !model.has("name") && !smoke) {
    model.complain("name", "is missing", "it is the folder with config.json and tokenizer.json: a path on the volume, like \"models/qwen3-0.6b\"");
  }
  if (config.model.name.empty() && config.tokenizer.name.empty() && reads_conversations(config)) {
    model.complain("name", "is missing: the conversations of val.data need a tokenizer", "set it, or tokenizer.name");
  }
  check_path(model, "name", config.model.name);
  check_path(top.section("tokenizer"), "name", config.tokenizer.name);
  TomlSection debug = model.section("debug");
  if (config.mode == TrainingMode::kPretrain && debug.has("random_init") && !config.model.random_init) {
    debug.complain("random_init", "is false, and mode = \"pretrain\" always starts from random weights");
  }
}

void check_data(TomlSection section, const DataSettings& data) {
  switch (data.kind) {
    case DataKind::kSft:
      if (!section.has("name")) section.complain("name", "is missing", std::string("it is ") + kOnVolume);
      check_path(section, "name", data.name);
      break;
    case DataKind::kShards:
      if (data.paths.size() > kFoldersMax) section.complain("paths", fmt::format("has more than {} folders", kFoldersMax));
      if (data.paths.empty()) section.complain("paths", "is missing", "list folders of shards on the volume, as 'cairn tokenize' writes them");
      for (const std::string& path : data.paths) check_path(section, "paths", path);
      break;
    case DataKind::kFake: break;
  }
  if (data.micro_batch_size > kTokensPerRowMax / data.seq_len) {
    section.complain("micro_batch_size", fmt::format("times seq_len is more than {} tokens in one forward pass", kTokensPerRowMax));
  }
}

void check_length(TomlSection top, const TrainingConfig& config, const char* key, int64_t length) {
  if (!config.model.seq_len || length <= *config.model.seq_len) return;
  top.section("model").complain("seq_len", fmt::format("is {}, less than {} = {}", *config.model.seq_len, key, length),
                                "leave it out: then the model's max_position_embeddings counts");
}

void check_batches(TomlSection top, const TrainingConfig& config) {
  // Of [data] only: a measurement is no step, and takes its rows one pass after the other.
  TomlSection section = top.section("data");
  int64_t batch = config.data.batch_size, micro_batch = config.data.micro_batch_size;
  if (batch % micro_batch != 0) {
    section.complain("micro_batch_size", fmt::format("is {}, which does not divide batch_size = {}", micro_batch, batch));
  }
  int64_t per_pass = config.num_processes * micro_batch;
  if (batch % per_pass == 0) return;
  section.complain("batch_size", fmt::format("is {}, which {} processes with micro_batch_size = {} cannot share evenly", batch,
                                             config.num_processes, micro_batch),
                   fmt::format("take a multiple of {}", per_pass));
}

void check_optimizer(TomlSection top, const TrainingConfig& config) {
  bool sgd = config.optim.kind == OptimizerKind::kSgd;
  if (sgd && config.optim.nesterov && config.optim.momentum <= 0) {
    top.section("optim").complain("nesterov", "needs a momentum above 0", "write nesterov = false");
  }
}

void check_scheduler(TomlSection top, const TrainingConfig& config) {
  TomlSection section = top.section("scheduler");
  const SchedulerSettings& scheduler = config.scheduler;
  if (scheduler.kind == SchedulerKind::kConstant) return;
  if (scheduler.min_lr > config.optim.lr) {
    section.complain("min_lr", fmt::format("is {}, above optim.lr = {}", scheduler.min_lr, config.optim.lr));
  }
  if (scheduler.kind == SchedulerKind::kLinear) {
    if (scheduler.warmup_steps == 0 && scheduler.decay_steps == 0) {
      section.complain("warmup_steps", "and decay_steps are both 0", "write type = \"constant\"");
    }
    if (scheduler.decay_steps == 0) return;
    if (!config.max_steps) {
      section.complain("decay_steps", "needs max_steps: the decay ends with the last step", "set max_steps, or decay_steps = 0");
    } else if (scheduler.warmup_steps + scheduler.decay_steps > *config.max_steps) {
      section.complain("decay_steps", fmt::format("and warmup_steps are {} together, more than max_steps = {}",
                                                  scheduler.warmup_steps + scheduler.decay_steps, *config.max_steps));
    }
    return;
  }
  if (!config.max_steps) {
    section.complain("type", "is \"cosine\", which needs max_steps: the curve ends with the last step");
  } else if (*config.max_steps <= scheduler.warmup_steps) {
    section.complain("warmup_steps", fmt::format("is {}, which leaves nothing of max_steps = {}", scheduler.warmup_steps, *config.max_steps));
  }
}

void check_outputs(TomlSection top, const TrainingConfig& config) {
  if (config.ckpt && config.ckpt->keep_best && config.ckpt->keep_best->metric.starts_with("val/") && !config.val) {
    top.section("ckpt").complain("keep_best", "wants " + config.ckpt->keep_best->metric + ", which nobody measures", "add [val]");
  }
  if (!config.resume) return;
  TomlSection section = top.section("resume");
  if (config.resume->step && section.has("dir")) section.complain("dir", "and resume.step exclude each other");
  if (!section.has("dir")) return;
  check_path(section, "dir", config.resume->dir);
  auto path = volume_path(config.resume->dir);
  if (!path) return;
  std::string name = path->substr(path->rfind('/') == std::string::npos ? 0 : path->rfind('/') + 1);
  std::string digits = name.starts_with("step_") ? name.substr(5) : "";
  bool right = !digits.empty() && digits.size() <= 15 && digits.find_first_not_of("0123456789") == std::string::npos &&
               (digits[0] != '0' || digits == "0");
  if (!right) {
    section.complain("dir", "is '" + name + "' by name, and a checkpoint is a folder step_N",
                     "write it like runs/RUN/checkpoints/step_100");
  }
}

void check_renderer(TomlSection top, const TrainingConfig& config) {
  TomlSection section = top.section("renderer");
  if (config.mode == TrainingMode::kPretrain) {
    if (top.has("renderer")) top.complain("renderer", "belongs to mode = \"sft\": shards hold tokens, not conversations");
    return;
  }
  if (!reads_conversations(config) || config.renderer.kind != RendererKind::kNone) return;
  section.complain("name", section.has("name") ? "is \"auto\", and a path on the volume does not say how its model writes conversations"
                                               : "is missing: a path on the volume does not say how its model writes conversations",
                   "write [renderer] with name = \"qwen3\" or \"prime-qwen3\"");
}

}  // namespace

void check_training_config(TomlSection top, const TrainingConfig& config) {
  check_model(top, config);
  TomlSection data = top.section("data");
  check_data(data, config.data);
  check_renderer(top, config);
  if (config.val) check_data(top.section("val").section("data"), config.val->data);
  check_length(top, config, "data.seq_len", config.data.seq_len);
  if (config.val) check_length(top, config, "val.data.seq_len", config.val->data.seq_len);
  check_batches(top, config);
  check_optimizer(top, config);
  check_scheduler(top, config);
  check_outputs(top, config);
}

}  // namespace cairn::config
