#include <algorithm>

#include <nlohmann/json.hpp>

#include "config/training_config.h"

namespace cairn::config {
namespace {

// Keys keep the order in which they are written, so equal configs give equal text.
using Json = nlohmann::ordered_json;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json model_json(const ModelSettings& model) {
  Json json;
  json["name"] = model.name;
  json["seq_len"] = or_null(model.seq_len);
  json["dtype"] = model.dtype;
  if (model.head_token_chunk_size == 0) {
    json["fused_lm_head_token_chunk_size"] = "disabled";
  } else {
    json["fused_lm_head_token_chunk_size"] = model.head_token_chunk_size;
  }
  json["ac"] = nullptr;
  if (model.activation_checkpointing) json["ac"] = {{"mode", "full"}, {"freq", model.activation_checkpointing_freq}};
  json["debug"]["random_init"] = model.random_init;
  json["debug"]["num_layers"] = model.num_layers == 0 ? Json(nullptr) : Json(model.num_layers);
  return json;
}

Json data_json(const DataSettings& data) {
  Json json;
  switch (data.kind) {
    case DataKind::kSft:
      json["type"] = "sft";
      json["name"] = data.name;
      json["shuffle"] = data.shuffle;
      json["loss_mask"] = {{"system", data.loss_mask.system},
                           {"user", data.loss_mask.user},
                           {"assistant", data.loss_mask.assistant},
                           {"tool", data.loss_mask.tool}};
      break;
    case DataKind::kShards:
      json["type"] = "shards";
      json["paths"] = data.paths;
      json["shuffle"] = data.shuffle;
      break;
    case DataKind::kFake:
      json["type"] = "fake";
      json["length"] = data.fake_variable_length ? "variable" : "fixed";
      json["input_ids"] = data.fake_random_ids ? "random" : "increasing";
      break;
  }
  json["seed"] = data.seed;
  json["batch_size"] = data.batch_size;
  json["micro_batch_size"] = data.micro_batch_size;
  json["seq_len"] = data.seq_len;
  return json;
}

Json validation_json(const ValidationSettings& val, TrainingMode mode) {
  Json json;
  json["interval"] = val.interval;
  json["eval_on_start"] = val.eval_on_start;
  if (mode == TrainingMode::kPretrain) json["num_samples"] = val.num_samples == 0 ? Json(nullptr) : Json(val.num_samples);
  json["data"] = data_json(val.data);
  return json;
}

Json optimizer_json(const OptimizerSettings& optim) {
  Json json;
  switch (optim.kind) {
    case OptimizerKind::kAdamW: json["type"] = "adamw"; break;
    case OptimizerKind::kSgd: json["type"] = "sgd"; break;
    case OptimizerKind::kSignSgd: json["type"] = "sign_sgd"; break;
    case OptimizerKind::kMuon: json["type"] = "muon"; break;
  }
  json["lr"] = optim.lr;
  json["weight_decay"] = optim.weight_decay;
  json["max_norm"] = optim.max_norm ? Json(*optim.max_norm) : Json("none");
  if (optim.kind == OptimizerKind::kMuon) json["mu"] = optim.mu;
  if (optim.kind == OptimizerKind::kAdamW || optim.kind == OptimizerKind::kMuon) {
    json["betas1"] = optim.betas1;
    json["betas2"] = optim.betas2;
  }
  if (optim.kind == OptimizerKind::kSgd) {
    json["momentum"] = optim.momentum;
    json["nesterov"] = optim.nesterov;
  }
  return json;
}

Json scheduler_json(const SchedulerSettings& scheduler) {
  Json json;
  switch (scheduler.kind) {
    case SchedulerKind::kConstant: json["type"] = "constant"; return json;
    case SchedulerKind::kLinear: json["type"] = "linear"; break;
    case SchedulerKind::kCosine: json["type"] = "cosine"; break;
  }
  json["warmup_steps"] = scheduler.warmup_steps;
  if (scheduler.kind == SchedulerKind::kLinear) json["decay_steps"] = scheduler.decay_steps;
  json["min_lr"] = scheduler.min_lr;
  return json;
}

Json checkpoints_json(const CheckpointSettings& ckpt) {
  Json json;
  json["interval"] = or_null(ckpt.interval);
  json["keep_last"] = or_null(ckpt.keep_last);
  json["keep_interval"] = or_null(ckpt.keep_interval);
  json["keep_best"] = nullptr;
  if (const auto& best = ckpt.keep_best) {
    json["keep_best"] = {{"metric", best->metric}, {"n", best->n}, {"mode", best->lowest ? "min" : "max"}};
  }
  json["skip_progress"] = ckpt.skip_progress;
  json["skip_scheduler"] = ckpt.skip_scheduler;
  json["skip_dataloader"] = ckpt.skip_dataloader;
  json["skip_optimizer"] = ckpt.skip_optimizer;
  return json;
}

Json resume_json(const ResumeSettings& resume) {
  Json json;
  json["step"] = or_null(resume.step);
  json["dir"] = resume.dir.empty() ? Json(nullptr) : Json(resume.dir);
  return json;
}

Json renderer_json(const RendererSettings& renderer) {
  Json json;
  switch (renderer.kind) {
    case RendererKind::kNone: return nullptr;
    case RendererKind::kQwen3:
      json["name"] = "qwen3";
      json["enable_thinking"] = renderer.enable_thinking;
      break;
    case RendererKind::kPrimeQwen3: json["name"] = "prime-qwen3"; break;
  }
  return json;
}

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

}  // namespace

std::string resolved_training_config(const TrainingConfig& config) {
  Json json;
  json["mode"] = config.mode == TrainingMode::kSft ? "sft" : "pretrain";
  json["volume"] = text_or_null(config.volume);
  json["gpu_type"] = text_or_null(config.gpu_type);
  json["max_steps"] = or_null(config.max_steps);
  json["seed"] = config.seed;
  json["dist_timeout_seconds"] = config.dist_timeout_seconds;
  json["env_vars"] = Json::object();
  for (const auto& [name, value] : config.env_vars) json["env_vars"][name] = value;
  json["model"] = model_json(config.model);
  if (config.model.name.empty()) json["model"].erase("name");
  json["tokenizer"] = nullptr;
  if (!config.tokenizer.name.empty()) json["tokenizer"]["name"] = config.tokenizer.name;
  json["data"] = data_json(config.data);
  json["val"] = config.val ? validation_json(*config.val, config.mode) : Json(nullptr);
  json["optim"] = optimizer_json(config.optim);
  json["scheduler"] = scheduler_json(config.scheduler);
  json["ckpt"] = config.ckpt ? checkpoints_json(*config.ckpt) : Json(nullptr);
  json["resume"] = config.resume ? resume_json(*config.resume) : Json(nullptr);
  json["renderer"] = renderer_json(config.renderer);
  json["deployment"] = {{"type", "single_node"},
                        {"num_train_gpus", config.num_processes},
                        {"gpus_per_node", std::max<int64_t>(8, config.num_processes)}};
  json["monitors"] = {{"file", config.monitors.file}, {"tensorboard", config.monitors.tensorboard}};
  json["log"] = {{"level", config.monitors.level},
                 {"json_logging", config.monitors.json_logging},
                 {"interval", config.monitors.interval}};
  // Paths and texts of a TOML file are UTF-8 already; `replace` only promises that nothing throws.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace cairn::config
