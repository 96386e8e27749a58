#include "config/training_config.h"

#include "base/gpu_wish.h"
#include "config/nearest.h"
#include "config/training_sections.h"

namespace cairn::config {
namespace {

// Which schema to read the rest by. RL configs have [data] of their own shape, so their blocks are looked for first.
TrainingMode read_mode(TomlSection top) {
  if (top.is_text("type")) {
    top.refuse("type", "is " + top.shown("type") + ": this trainer knows mode = \"sft\" and \"pretrain\"");
  }
  if (top.has("inference") && !top.has("eval")) {
    top.refuse("inference", "needs [eval], which is not there; and this trainer has neither",
               "leave [inference] out; [val] measures the held-out loss");
  }
  refuse_unbuilt(top, "");
  std::string mode;
  if (!top.text("mode", mode)) {
    if (!top.has("data")) top.complain("mode", "is missing", "write mode = \"sft\" or mode = \"pretrain\" before the first table");
    return TrainingMode::kSft;
  }
  if (mode == "pretrain") return TrainingMode::kPretrain;
  if (mode == "sft") return TrainingMode::kSft;
  auto nearest = nearest_word(mode, {"sft", "pretrain"});
  std::string hint = nearest ? "did you mean \"" + *nearest + "\"?" : "known: \"sft\", \"pretrain\"";
  if (mode == "rl") {
    top.refuse("mode", "is \"rl\": reinforcement learning is not part of this trainer", hint);
  } else {
    top.complain("mode", "is " + top.shown("mode") + ", which is no mode", hint);
  }
  return TrainingMode::kSft;
}

bool is_variable_name(const std::string& name) {
  if (name.empty() || name.size() > 256 || (name[0] >= '0' && name[0] <= '9')) return false;
  for (char c : name) {
    bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    if (!fine) return false;
  }
  return true;
}

void read_variables(TomlSection section, std::map<std::string, std::string>& variables) {
  for (const std::string& name : section.keys()) {
    std::string value;
    if (!section.text(name, value)) continue;
    bool ours = name == "CUDA_VISIBLE_DEVICES" || name.starts_with("PRL_RUN_") || name.starts_with("CAIRN_") || name.starts_with("WANDB_");
    if (!is_variable_name(name)) {
      section.complain(name, "is no name of a variable");
    } else if (ours) {
      section.complain(name, "is set by Cairn", "leave it out");
    }
    variables[name] = value;
  }
}

void read_gpus(TomlSection top, std::string& gpu_type) {
  if (!top.text("gpu_type", gpu_type)) return;
  Result<GpuWish> wish = parse_gpu(gpu_type);
  if (!wish) top.complain("gpu_type", "is wrong: " + wish.error().message(), wish.error().hint());
}

void read_top(TomlSection top, TrainingConfig& config) {
  std::string engine;
  top.text("engine", engine);
  top.text("volume", config.volume);
  read_gpus(top, config.gpu_type);
  if (top.has("output_dir")) {
    top.complain("output_dir", "is set by Cairn: outputs lie in runs/<id> on the volume", "leave it out");
  }
  int64_t number = 0;
  if (top.number("max_steps", number, 1, kStepsMax)) config.max_steps = number;
  if (top.number("seed", number, 0, INT64_MAX)) config.seed = static_cast<uint64_t>(number);
  top.number("dist_timeout_seconds", config.dist_timeout_seconds, 1, 7 * 24 * 3600);
  TomlSection gc = top.section("gc");
  gc.number("interval", number, 1, kStepsMax);  // of Python's collector: there is none here
  read_variables(top.section("env_vars"), config.env_vars);
}

TrainingConfig read_config(TomlSection top) {
  TrainingConfig config;
  config.mode = read_mode(top);
  bool pretrain = config.mode == TrainingMode::kPretrain;
  read_top(top, config);
  config.model.random_init = pretrain;
  read_model(top.section("model"), config.model);
  read_tokenizer(top.section("tokenizer"), config.tokenizer);
  read_data(top.section("data"), config.mode, config.data);
  if (top.has("val")) {
    config.val.emplace();
    read_validation(top.section("val"), config.mode, *config.val);
  } else {
    top.know("val");
  }
  if (pretrain) config.optim.lr = 1e-3;
  read_optimizer(top.section("optim"), config.optim);
  read_scheduler(top.section("scheduler"), config.mode, config.scheduler);
  if (top.has("ckpt")) {
    config.ckpt.emplace();
    read_checkpoints(top.section("ckpt"), *config.ckpt);
  } else {
    top.know("ckpt");
  }
  if (top.has("resume")) {
    config.resume.emplace();
    read_resume(top.section("resume"), *config.resume);
  } else {
    top.know("resume");
  }
  read_renderer(top.section("renderer"), config.renderer);
  read_deployment(top.section("deployment"), config);
  read_monitors(top.section("monitors"), top.section("log"), config.monitors);
  return config;
}

}  // namespace

bool reads_conversations(const TrainingConfig& config) {
  return config.data.kind == DataKind::kSft || (config.val && config.val->data.kind == DataKind::kSft);
}

Result<TrainingConfig> parse_training_config(std::string_view text, const std::string& file) {
  CAIRN_TRY(TomlReader reader, TomlReader::parse(text, file));
  TomlSection top = reader.top();
  TrainingConfig config = read_config(top);
  CAIRN_CHECK_OK(reader.finish());
  check_training_config(top, config);
  CAIRN_CHECK_OK(reader.finish());
  bool smoke = config.model.name.empty();
  config.model.random_init = config.model.random_init || smoke;
  return config;
}

}  // namespace cairn::config
