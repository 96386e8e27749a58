// The whole training config of the built-in trainer (engine "cairn"): keys, types, defaults and bounds of both modes, as one
// value. The CLI's dry run, the server before it queues a run, and the trainer itself all read it through `parse_training_config`,
// so a run that was queued is never refused for its config later.
//
// Pure: no I/O. Paths are checked for their spelling only (`training_paths.h` lists them, for whoever can look whether they exist).
// Numbers without a unit count tokens, rows or optimizer steps, as their comments say.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cairn::config {

enum class TrainingMode { kSft, kPretrain };

// The model of a run with fake data that names none: small enough for any machine.
inline constexpr std::string_view kSmokeModelConfig =
    R"({"architectures":["Qwen3ForCausalLM"],"attention_bias":false,"head_dim":32,"hidden_act":"silu","hidden_size":128,)"
    R"("initializer_range":0.02,"intermediate_size":384,"max_position_embeddings":40960,"model_type":"qwen3",)"
    R"("num_attention_heads":4,"num_hidden_layers":2,"num_key_value_heads":2,"rms_norm_eps":1e-06,"rope_theta":1000000,)"
    R"("tie_word_embeddings":true,"vocab_size":1024})";

// [model]
struct ModelSettings {
  // Folder with config.json, tokenizer.json and (sft) weights: relative to the volume or /volume/…. Empty only with fake data:
  // then the model is kSmokeModelConfig with random weights, and nothing is read.
  std::string name;
  // Longest sequence the model sees, in tokens: rows of data.seq_len fit, longer samples of conversations are cut. Refused beyond
  // the model's max_position_embeddings, which is what counts when this is empty.
  std::optional<int64_t> seq_len;
  bool activation_checkpointing = false;  // [model.ac] mode = "full"
  int64_t activation_checkpointing_freq = 1;
  int64_t head_token_chunk_size = 8192;   // fused_lm_head_token_chunk_size in tokens; 0: "disabled"
  bool random_init = false;               // [model.debug]; always true for pretrain and for the smoke model
  int64_t num_layers = 0;                 // [model.debug]; 0: as config.json says
  std::string dtype = "auto";             // compute type: auto (bfloat16 where the CPU or GPU has it), float32, bfloat16
};

// [tokenizer]
struct TokenizerSettings {
  std::string name;  // folder; empty: the model's
};

struct LossMask {
  bool system = false;
  bool user = false;
  bool assistant = true;
  bool tool = false;
};

enum class DataKind { kSft, kFake, kShards };

// [data] and [val.data]; of the latter shuffle, seed and batch_size change nothing: what is measured is the same rows in order.
struct DataSettings {
  DataKind kind = DataKind::kSft;
  std::string name;                // sft: file or folder of JSONL and Parquet; no default
  std::vector<std::string> paths;  // pretrain: folders of shards
  bool shuffle = true;
  uint64_t seed = 0;
  LossMask loss_mask;
  int64_t batch_size = 128;        // rows of seq_len per optimizer step, over all processes
  int64_t micro_batch_size = 1;    // rows per forward pass; divides batch_size
  int64_t seq_len = 128;           // tokens a row
  bool fake_variable_length = false;   // fake: length = "variable"
  bool fake_random_ids = false;        // fake: input_ids = "random"
};

// [val]
struct ValidationSettings {
  int64_t interval = 50;     // optimizer steps
  bool eval_on_start = false;
  int64_t num_samples = 0;   // pretrain: rows; 0: all
  DataSettings data;
};

enum class OptimizerKind { kAdamW, kSgd, kSignSgd, kMuon };

// [optim]
struct OptimizerSettings {
  OptimizerKind kind = OptimizerKind::kAdamW;
  double lr = 1e-6;  // 1e-3 for pretrain
  double weight_decay = 0.01;
  std::optional<double> max_norm = 1.0;  // no clipping when empty (max_norm = "none")
  double betas1 = 0.9, betas2 = 0.999;   // adamw; muon's AdamW part: 0.9, 0.95
  double eps = 1e-8;
  double momentum = 0.9;                 // sgd
  bool nesterov = true;                  // sgd
  double mu = 0.95;                      // muon
};

enum class SchedulerKind { kConstant, kLinear, kCosine };

// [scheduler]
struct SchedulerSettings {
  SchedulerKind kind = SchedulerKind::kConstant;  // linear for pretrain: 10 steps of warm-up, no decay
  int64_t warmup_steps = 10;
  int64_t decay_steps = 10;
  double min_lr = 0;
};

struct KeepBest {
  std::string metric;  // "val/loss"
  int64_t n = 1;
  bool lowest = true;  // mode = "min" | "max"
};

// [ckpt]
struct CheckpointSettings {
  std::optional<int64_t> interval;       // steps; empty: only at the end
  std::optional<int64_t> keep_last;
  std::optional<int64_t> keep_interval;
  std::optional<KeepBest> keep_best;
  bool skip_progress = false, skip_scheduler = false, skip_dataloader = false, skip_optimizer = false;  // when loading
};

// [resume]: the latest checkpoint of this run when neither is given.
struct ResumeSettings {
  std::optional<int64_t> step;
  std::string dir;  // …/step_N of any run
};

enum class RendererKind { kNone, kQwen3, kPrimeQwen3 };

// [renderer]
struct RendererSettings {
  RendererKind kind = RendererKind::kNone;
  bool enable_thinking = true;  // qwen3 only
};

// [monitors], [log]
struct MonitorSettings {
  bool file = true;
  bool tensorboard = true;
  std::string level = "info";
  bool json_logging = false;
  int64_t interval = 10;  // steps between progress lines
};

struct TrainingConfig {
  TrainingMode mode = TrainingMode::kSft;
  std::string volume;  // may be empty
  std::string gpu_type;  // "cpu", "N", "TYPE", "TYPE:N"; may be empty
  std::optional<int64_t> max_steps;  // empty: endless
  uint64_t seed = 0;                 // of random initial weights
  int64_t dist_timeout_seconds = 3600;
  std::map<std::string, std::string> env_vars;
  int64_t num_processes = 1;         // [deployment] num_train_gpus; on a CPU node: processes
  bool gpus_named = false;           // num_train_gpus was written: without gpu_type the run asks for as many
  ModelSettings model;
  TokenizerSettings tokenizer;
  DataSettings data;
  std::optional<ValidationSettings> val;
  OptimizerSettings optim;
  SchedulerSettings scheduler;
  std::optional<CheckpointSettings> ckpt;
  std::optional<ResumeSettings> resume;
  RendererSettings renderer;
  MonitorSettings monitors;
};

// Whether training or validation reads conversations, which need a tokenizer and a renderer.
bool reads_conversations(const TrainingConfig& config);

// config_invalid names file, line and key, for an unknown key also the nearest known one; config_unsupported names a known
// setting that this trainer does not have. Fields not mentioned in the file hold the defaults of its mode.
Result<TrainingConfig> parse_training_config(std::string_view text, const std::string& file);

// The config with every default written out, as the JSON that `runs/<id>/configs/` keeps. Deterministic.
std::string resolved_training_config(const TrainingConfig& config);

}  // namespace cairn::config
