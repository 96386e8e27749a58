// The schema of training configs: every default, both ends of every range, every refusal.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "config/training_config.h"
#include "config/training_paths.h"
#include "config/training_sections.h"

namespace cairn::config {
namespace {

constexpr char kSft[] = "[model]\nname = \"m\"\n[data]\nname = \"d\"\n[renderer]\nname = \"qwen3\"\n";
constexpr char kPretrain[] = "mode = \"pretrain\"\n[model]\nname = \"m\"\n[data]\npaths = [\"d\"]\n";
constexpr char kFake[] = "mode = \"sft\"\n[data]\ntype = \"fake\"\n";

// What is said about the text: code, message and hint, or "accepted".
std::string said(const std::string& text) {
  auto config = parse_training_config(text, "t.toml");
  if (config) return "accepted";
  const Error& error = config.error();
  std::string code = error.code() == Code::kConfigInvalid ? "" : error.code() == Code::kConfigUnsupported ? "unsupported: " : "?? ";
  return code + error.message() + (error.hint().empty() ? "" : " (" + error.hint() + ")");
}

TrainingConfig parsed(const std::string& text) {
  auto config = parse_training_config(text, "t.toml");
  EXPECT_TRUE(config) << config.error().to_string() << "\n" << text;
  return config ? *config : TrainingConfig();
}

// `setting` ("model.cp = 1", "seed = 3", "model.ac.freq = 2") set in a config: keys of tables that it has go below their headers.
std::string with(std::string base, const std::string& setting) {
  size_t dot = setting.rfind('.', setting.find(' '));
  if (dot == std::string::npos || dot > setting.find(' ')) return setting + "\n" + base;
  std::string header = "[" + setting.substr(0, dot) + "]\n";
  std::string line = setting.substr(dot + 1) + "\n";
  size_t at = base.find(header);
  if (at == std::string::npos) return base + header + line;
  return base.insert(at + header.size(), line);
}

// The same in place of the key the base config has.
std::string replaced(const std::string& base, const std::string& line, const std::string& by) {
  std::string text = base;
  size_t at = text.find(line);
  EXPECT_NE(at, std::string::npos) << line;
  return at == std::string::npos ? text : text.replace(at, line.size(), by);
}

TEST(TrainingConfig, SftDefaults) {
  TrainingConfig config = parsed(kSft);
  EXPECT_EQ(config.mode, TrainingMode::kSft);
  EXPECT_EQ(config.max_steps, std::nullopt);
  EXPECT_EQ(config.seed, 0u);
  EXPECT_EQ(config.dist_timeout_seconds, 3600);
  EXPECT_TRUE(config.env_vars.empty());
  EXPECT_EQ(config.num_processes, 1);
  EXPECT_EQ(config.model.seq_len, std::nullopt);
  EXPECT_FALSE(config.model.activation_checkpointing);
  EXPECT_EQ(config.model.activation_checkpointing_freq, 1);
  EXPECT_EQ(config.model.head_token_chunk_size, 8192);
  EXPECT_FALSE(config.model.random_init);
  EXPECT_EQ(config.model.num_layers, 0);
  EXPECT_EQ(config.model.dtype, "auto");
  EXPECT_EQ(config.tokenizer.name, "");
  EXPECT_EQ(config.data.kind, DataKind::kSft);
  EXPECT_TRUE(config.data.shuffle);
  EXPECT_EQ(config.data.seed, 0u);
  EXPECT_FALSE(config.data.loss_mask.system || config.data.loss_mask.user || config.data.loss_mask.tool);
  EXPECT_TRUE(config.data.loss_mask.assistant);
  EXPECT_EQ(config.data.batch_size, 128);
  EXPECT_EQ(config.data.micro_batch_size, 1);
  EXPECT_EQ(config.data.seq_len, 128);
  EXPECT_FALSE(config.val);
  EXPECT_EQ(config.optim.kind, OptimizerKind::kAdamW);
  EXPECT_EQ(config.optim.lr, 1e-6);
  EXPECT_EQ(config.optim.weight_decay, 0.01);
  EXPECT_EQ(config.optim.max_norm, 1.0);
  EXPECT_EQ(config.optim.betas1, 0.9);
  EXPECT_EQ(config.optim.betas2, 0.999);
  EXPECT_EQ(config.optim.eps, 1e-8);
  EXPECT_EQ(config.scheduler.kind, SchedulerKind::kConstant);
  EXPECT_FALSE(config.ckpt);
  EXPECT_FALSE(config.resume);
  EXPECT_EQ(config.renderer.kind, RendererKind::kQwen3);
  EXPECT_TRUE(config.renderer.enable_thinking);
  EXPECT_TRUE(config.monitors.file && config.monitors.tensorboard);
  EXPECT_EQ(config.monitors.level, "info");
  EXPECT_FALSE(config.monitors.json_logging);
  EXPECT_EQ(config.monitors.interval, 10);
}

TEST(TrainingConfig, PretrainDefaults) {
  TrainingConfig config = parsed(kPretrain);
  EXPECT_EQ(config.mode, TrainingMode::kPretrain);
  EXPECT_TRUE(config.model.random_init);
  EXPECT_EQ(config.data.kind, DataKind::kShards);
  EXPECT_EQ(config.data.paths, std::vector<std::string>{"d"});
  EXPECT_EQ(config.optim.lr, 1e-3);
  EXPECT_EQ(config.scheduler.kind, SchedulerKind::kLinear);
  EXPECT_EQ(config.scheduler.warmup_steps, 10);
  EXPECT_EQ(config.scheduler.decay_steps, 0);
  // Only the defaults change with the mode.
  EXPECT_EQ(parsed(with(kPretrain, "optim.lr = 2e-4")).optim.lr, 2e-4);
  EXPECT_EQ(parsed(with(kPretrain, "scheduler.type = \"constant\"")).scheduler.kind, SchedulerKind::kConstant);
}

TEST(TrainingConfig, DefaultsOfTables) {
  TrainingConfig fake = parsed(kFake);
  EXPECT_EQ(fake.data.kind, DataKind::kFake);
  EXPECT_EQ(fake.model.name, "");
  EXPECT_TRUE(fake.model.random_init);
  EXPECT_FALSE(fake.data.fake_variable_length || fake.data.fake_random_ids);
  EXPECT_TRUE(training_paths(fake).empty());
  EXPECT_EQ(parsed("mode = \"pretrain\"\n[data]\ntype = \"fake\"\n").data.kind, DataKind::kFake);

  // [val] does not inherit from [data].
  TrainingConfig val = parsed(with(std::string(kSft) + "[val.data]\nname = \"v\"\n", "data.seq_len = 4096"));
  EXPECT_EQ(val.val->interval, 50);
  EXPECT_FALSE(val.val->eval_on_start);
  EXPECT_EQ(val.val->data.seq_len, 128);
  EXPECT_EQ(val.data.seq_len, 4096);
  // Its batch is never made: micro_batch_size is compared with nothing.
  EXPECT_EQ(parsed(std::string(kSft) + "[val.data]\nname = \"v\"\nmicro_batch_size = 3\n").val->data.micro_batch_size, 3);
  TrainingConfig shards = parsed(std::string(kPretrain) + "[val]\nnum_samples = 64\n[val.data]\npaths = [\"v\"]\n");
  EXPECT_EQ(shards.val->num_samples, 64);
  EXPECT_EQ(shards.val->data.kind, DataKind::kShards);

  TrainingConfig linear = parsed(with("max_steps = 20\n" + std::string(kSft), "scheduler.type = \"linear\""));
  EXPECT_EQ(linear.scheduler.warmup_steps, 10);
  EXPECT_EQ(linear.scheduler.decay_steps, 10);
  EXPECT_EQ(linear.scheduler.min_lr, 0);
  EXPECT_EQ(parsed(with(kSft, "optim.type = \"sgd\"")).optim.momentum, 0.9);
  EXPECT_TRUE(parsed(with(kSft, "optim.type = \"sgd\"")).optim.nesterov);
  EXPECT_EQ(parsed(with(kSft, "optim.type = \"muon\"")).optim.mu, 0.95);
  EXPECT_EQ(parsed(with(kSft, "optim.type = \"muon\"")).optim.betas2, 0.95);
  EXPECT_EQ(parsed(with(kSft, "optim.type = \"sign_sgd\"")).optim.kind, OptimizerKind::kSignSgd);
  EXPECT_EQ(parsed(with(kSft, "optim.max_norm = \"none\"")).optim.max_norm, std::nullopt);

  TrainingConfig ckpt = parsed(std::string(kSft) + "[ckpt]\n[resume]\n");
  EXPECT_FALSE(ckpt.ckpt->interval || ckpt.ckpt->keep_last || ckpt.ckpt->keep_interval || ckpt.ckpt->keep_best);
  EXPECT_FALSE(ckpt.ckpt->skip_progress || ckpt.ckpt->skip_scheduler || ckpt.ckpt->skip_dataloader || ckpt.ckpt->skip_optimizer);
  EXPECT_FALSE(ckpt.resume->step);
  EXPECT_EQ(ckpt.resume->dir, "");
  TrainingConfig best = parsed(with(kSft, "ckpt.keep_best = { metric = \"loss/mean\" }"));
  EXPECT_EQ(best.ckpt->keep_best->n, 1);
  EXPECT_TRUE(best.ckpt->keep_best->lowest);
  EXPECT_TRUE(parsed(with(kSft, "model.ac.freq = 3")).model.activation_checkpointing);
  EXPECT_EQ(parsed(with(kSft, "model.fused_lm_head_token_chunk_size = \"disabled\"")).model.head_token_chunk_size, 0);
  EXPECT_EQ(parsed(replaced(kSft, "\"qwen3\"", "\"prime-qwen3\"")).renderer.kind, RendererKind::kPrimeQwen3);
  EXPECT_EQ(parsed(std::string(kSft) + "[env_vars]\nOMP_NUM_THREADS = \"2\"\n").env_vars.at("OMP_NUM_THREADS"), "2");
}

struct Range {
  const char* setting;  // without the value
  const char *low, *below, *high, *above;
};

TEST(TrainingConfig, BothEndsOfEveryRange) {
  const std::string sft = "max_steps = 100\n" + std::string(kSft);
  const Range kRanges[] = {
      {"seed", "0", "-1", "9223372036854775807", "1.5"},
      {"dist_timeout_seconds", "1", "0", "604800", "604801"},
      {"gc.interval", "1", "0", "1000000000000", "1000000000001"},
      {"model.seq_len", "128", "0", "1048576", "1048577"},
      {"model.fused_lm_head_token_chunk_size", "1", "0", "1048576", "1048577"},
      {"model.ac.freq", "1", "0", "10000", "10001"},
      {"model.debug.num_layers", "1", "0", "10000", "10001"},
      {"data.batch_size", "1", "0", "1048576", "1048577"},
      {"data.micro_batch_size", "1", "0", "128", "129"},
      {"data.seq_len", "1", "0", "1048576", "1048577"},
      {"data.seed", "0", "-1", "9223372036854775807", "\"x\""},
      {"data.num_workers", "1", "0", "1024", "1025"},
      {"val.interval", "1", "0", "1000000000000", "1000000000001"},
      {"optim.lr", "0", "-1e-9", "1000", "1001"},
      {"optim.weight_decay", "0.0", "-0.1", "1000.0", "inf"},
      {"optim.max_norm", "1e-12", "0", "1e12", "nan"},
      {"optim.betas1", "0", "-0.1", "0.99", "1"},
      {"optim.betas2", "0", "-0.1", "0.99", "1.0"},
      {"ckpt.interval", "1", "0", "1000000000000", "1000000000001"},
      {"ckpt.keep_last", "1", "0", "100000", "100001"},
      {"ckpt.keep_interval", "1", "0", "1000000000000", "1000000000001"},
      {"resume.step", "1", "0", "1000000000000", "1000000000001"},
      {"deployment.num_train_gpus", "1", "0", "8", "9"},
      {"deployment.gpus_per_node", "1", "0", "1024", "1025"},
      {"deployment.num_infer_gpus", "0", "-1", "1024", "1025"},
      {"log.interval", "1", "0", "1000000000000", "1000000000001"},
  };
  for (const Range& range : kRanges) {
    std::string base = range.setting == std::string("val.interval") ? sft + "[val]\n[val.data]\nname = \"v\"\n" : sft;
    for (const char* right : {range.low, range.high}) {
      EXPECT_EQ(said(with(base, std::string(range.setting) + " = " + right)), "accepted") << range.setting << " = " << right;
    }
    for (const char* wrong : {range.below, range.above}) {
      std::string complaint = said(with(base, std::string(range.setting) + " = " + wrong));
      EXPECT_TRUE(complaint.starts_with("t.toml, line ")) << range.setting << " = " << wrong << ": " << complaint;
      EXPECT_NE(complaint.find(std::string("'") + range.setting + "'"), std::string::npos) << complaint;
    }
  }
  EXPECT_EQ(said("max_steps = 0\n" + std::string(kSft)), "t.toml, line 1: 'max_steps' must be a whole number from 1 to 1000000000000");
  for (const char* kind : {"linear", "cosine"}) {
    std::string base = with(sft, "scheduler.type = \"" + std::string(kind) + "\"");
    EXPECT_EQ(said(with(base, "scheduler.warmup_steps = 0")), "accepted");
    EXPECT_NE(said(with(base, "scheduler.warmup_steps = -1")), "accepted");
    EXPECT_NE(said(with(base, "scheduler.min_lr = -1")), "accepted");
  }
  std::string sgd = with(sft, "optim.type = \"sgd\"");
  EXPECT_EQ(said(with(sgd, "optim.momentum = 0.5")), "accepted");
  EXPECT_NE(said(with(sgd, "optim.momentum = 1")), "accepted");
  EXPECT_NE(said(with(with(sft, "optim.type = \"muon\""), "optim.mu = 1")), "accepted");
  std::string val = std::string(kPretrain) + "[val]\n[val.data]\npaths = [\"v\"]\n";
  EXPECT_EQ(said(with(val, "val.num_samples = 1")), "accepted");
  EXPECT_NE(said(with(val, "val.num_samples = 0")), "accepted");
}

TEST(TrainingConfig, TypesOfEverySetting) {
  for (const char* wrong :
       {"volume = 1", "gpu_type = 1", "engine = 1", "model.seq_len = 1.0", "model.dtype = 32", "model.debug.random_init = 0",
        "tokenizer.name = true", "data.shuffle = 1", "data.loss_mask = true", "data.loss_mask.user = \"no\"", "val = 1", "val.data = []",
        "optim.lr = \"1e-3\"", "optim.max_norm = true", "scheduler.type = 1", "ckpt.skip_optimizer = 1", "ckpt.keep_best = true",
        "resume.dir = 1", "renderer.enable_thinking = 1", "monitors.file = 1", "monitors.tensorboard = \"x\"", "log.level = 1",
        "log.json_logging = 1", "log.ranks_filter = 0", "log.ranks_filter = [0.5]", "env_vars.A = 1", "ckpt = true", "resume = 1"}) {
    std::string text = with(kSft, wrong);
    std::string complaint = said(text);
    EXPECT_TRUE(complaint.starts_with("t.toml, line ")) << wrong << ": " << complaint;
    EXPECT_NE(complaint.find("must be "), std::string::npos) << wrong << ": " << complaint;
  }
}

struct Refusal {
  std::string text, complaint;
};

TEST(TrainingConfig, WhatMustFitTogether) {
  const std::string s = kSft;
  const Refusal kRefusals[] = {
      {"a = 1\n" + s, "t.toml, line 1: unknown key 'a' (known here: "},
      {with(s, "model.nmae = \"x\""), "t.toml, line 2: unknown key 'model.nmae' (did you mean 'model.name'?)"},
      {"[model]\nnmae = \"m\"\n[data]\nname = \"d\"\n", "t.toml, line 2: unknown key 'model.nmae' (did you mean 'model.name'?)"},
      {with(s, "ckpt.keep_best = { metrik = \"x\" }"), "t.toml, line 8: unknown key 'ckpt.keep_best.metrik' (did you mean 'ckpt.keep_best.metric'?)"},
      {"[model]\nname = \"m\"\n", "t.toml: 'mode' is missing (write mode = \"sft\" or mode = \"pretrain\" before the first table)"},
      {"gpu_type = \"cpu:2\"\n" + s, "t.toml, line 1: 'gpu_type' is wrong: 'cpu:2' is no number of GPUs: cpu asks for none, and stands alone (write cpu; "},
      {"gpu_type = \"2 H100\"\n" + s, "t.toml, line 1: 'gpu_type' is wrong: '2 H100' is no number of GPUs (write cpu, a number, "},
      {"mode = \"pretrian\"\n", "t.toml, line 1: 'mode' is \"pretrian\", which is no mode (did you mean \"pretrain\"?)"},
      {"mode = \"rl\"\n", "unsupported: t.toml, line 1: 'mode' is \"rl\": reinforcement learning is not part of this trainer"},
      {"type = \"full_finetune\"\n", "unsupported: t.toml, line 1: 'type' is \"full_finetune\": this trainer knows mode"},
      {"output_dir = \"x\"\n" + s, "t.toml, line 1: 'output_dir' is set by Cairn: outputs lie in runs/<id> on the volume (leave it out)"},
      {with(s, "ckpt.output_dir = \"x\""), "t.toml, line 8: 'ckpt.output_dir' is set by Cairn: checkpoints lie in the run's own folder (leave it out)"},
      {"inference = 1\n" + s, "unsupported: t.toml, line 1: 'inference' needs [eval], which is not there; and this trainer has neither"},
      {s + "[inference]\n[eval]\n", "unsupported: t.toml, line 8: 'eval' is not built: there are no online evaluations; [val] measures the held-out loss"},
      {s + "[trainer]\n[orchestrator]\n", "unsupported: t.toml, line 7: 'trainer' is not built: reinforcement learning is not part of this trainer"},
      {s + "[weight_broadcast]\n", "unsupported: t.toml, line 7: 'weight_broadcast' is not built: there is no inference server to send weights to"},
      {with(s, "model.moe_use_grouped_mm = true"), "unsupported: t.toml, line 2: 'model.moe_use_grouped_mm' is not built: mixtures of experts are not part of this trainer"},
      {with(s, "model.cp = 8"), "unsupported: t.toml, line 2: 'model.cp' cannot be 8: context parallelism is not built: a row lies whole in one process (accepted: 1)"},
      {s + "[model.lora]\nrank = 16\n", "unsupported: t.toml, line 7: 'model.lora' is not built: all weights are trained; adapters are not built"},
      {with(s, "deployment.type = \"multi_node\""), "unsupported: t.toml, line 8: 'deployment.type' is \"multi_node\": a run uses one node (accepted: \"single_node\")"},
      {with(s, "log.ranks_filter = [0, 1]"), "unsupported: t.toml, line 8: 'log.ranks_filter' is another list than [0]: the first process logs for all"},
      {"mode = \"sft\"\n", "t.toml: 'model.name' is missing"},
      {"[data]\nname = \"d\"\n[model]\n", "t.toml, line 3: 'model.name' is missing (it is the folder with config.json"},
      {"[model]\nname = \"m\"\n[data]\n", "t.toml, line 3: 'data.name' is missing (it is a path on the volume"},
      {"mode = \"pretrain\"\n[model]\nname = \"m\"\n[data]\n", "t.toml, line 4: 'data.paths' is missing (list folders of shards"},
      {replaced(kPretrain, "[\"d\"]", "[]"), "t.toml, line 5: 'data.paths' is missing (list folders of shards"},
      {s + "[val]\n", "t.toml: 'val.data.name' is missing"},
      {replaced(s, "\"d\"", "\"\""), "t.toml, line 4: 'data.name' is '', which is no path"},
      {replaced(s, "\"d\"", "\"../d\""), "t.toml, line 4: 'data.name' is '../d', which has '..' in it (write it relative"},
      {replaced(s, "\"m\"", "\"/models/m\""), "t.toml, line 2: 'model.name' is '/models/m', which is not on the volume"},
      {replaced(kPretrain, "[\"d\"]", "[\"d\", \"/volume\"]"), "t.toml, line 5: 'data.paths' is '/volume', which is the whole volume, not something on it"},
      {with(kPretrain, "model.debug.random_init = false"), "t.toml, line 7: 'model.debug.random_init' is false, and mode = \"pretrain\" always starts"},
      {with(s, "data.paths = [\"x\"]"), "t.toml, line 4: 'data.paths' is no setting of type = \"sft\""},
      {with(kPretrain, "data.name = \"x\""), "t.toml, line 5: 'data.name' is no setting of type = \"shards\""},
      {with(kFake, "data.name = \"x\""), "t.toml, line 3: 'data.name' is no setting of type = \"fake\""},
      {with(s, "data.type = \"shards\""), "t.toml, line 4: 'data.type' must be one of \"sft\", \"fake\", not \"shards\""},
      {s + "[val.data]\ntype = \"fake\"\n", "t.toml, line 8: 'val.data.type' must be \"sft\", not \"fake\""},
      {with(with(s, "data.batch_size = 8"), "data.micro_batch_size = 3"), "t.toml, line 4: 'data.micro_batch_size' is 3, which does not divide batch_size = 8"},
      {with(with(s, "data.seq_len = 1048576"), "data.micro_batch_size = 2"), "t.toml, line 4: 'data.micro_batch_size' times seq_len is more than 1048576 tokens"},
      {with(with(s, "data.batch_size = 8"), "deployment.num_train_gpus = 3"),
       "t.toml, line 4: 'data.batch_size' is 8, which 3 processes with micro_batch_size = 1 cannot share evenly (take a multiple of 3)"},
      {with(with(s, "data.seq_len = 512"), "model.seq_len = 256"),
       "t.toml, line 2: 'model.seq_len' is 256, less than data.seq_len = 512 (leave it out: then the model's max_position_embeddings counts)"},
      {with(with(s, "model.seq_len = 256"), "val.data = { name = \"v\", seq_len = 257 }"), "t.toml, line 2: 'model.seq_len' is 256, less than val.data.seq_len = 257"},
      {with(s, "deployment.num_train_gpus = 16"), "t.toml, line 8: 'deployment.num_train_gpus' is 16, more than the 8 GPUs of a node (gpus_per_node)"},
      {with(s, "val.num_samples = 1"), "t.toml, line 8: 'val.num_samples' is a setting of mode = \"pretrain\""},
      {with(s, "optim.momentum = 0.9"), "t.toml, line 8: 'optim.momentum' is no setting of type = \"adamw\""},
      {with(with(s, "optim.type = \"sgd\""), "optim.betas1 = 0.9"), "t.toml, line 8: 'optim.betas1' is no setting of type = \"sgd\""},
      {with(with(s, "optim.type = \"sgd\""), "optim.momentum = 0"), "t.toml, line 7: 'optim.nesterov' needs a momentum above 0"},
      {with(s, "optim.type = \"adam\""), "t.toml, line 8: 'optim.type' must be one of \"adamw\", \"sgd\", \"muon\", \"sign_sgd\", not \"adam\" (did you mean \"adamw\"?)"},
      {with(s, "scheduler.warmup_steps = 5"), "t.toml, line 8: 'scheduler.warmup_steps' is no setting of type = \"constant\""},
      {with(with("max_steps = 9\n" + s, "scheduler.type = \"cosine\""), "scheduler.decay_steps = 5"), "t.toml, line 9: 'scheduler.decay_steps' is no setting of type = \"cosine\""},
      {with(s, "scheduler.type = \"linear\""), "t.toml, line 7: 'scheduler.decay_steps' needs max_steps"},
      {with("max_steps = 19\n" + s, "scheduler.type = \"linear\""), "t.toml, line 8: 'scheduler.decay_steps' and warmup_steps are 20 together, more than max_steps = 19"},
      {with(with(with(s, "scheduler.type = \"linear\""), "scheduler.warmup_steps = 0"), "scheduler.decay_steps = 0"), "'scheduler.warmup_steps' and decay_steps are both 0"},
      {with(s, "scheduler.type = \"cosine\""), "t.toml, line 8: 'scheduler.type' is \"cosine\", which needs max_steps"},
      {with("max_steps = 10\n" + s, "scheduler.type = \"cosine\""), "t.toml, line 8: 'scheduler.warmup_steps' is 10, which leaves nothing of max_steps = 10"},
      {with(with("max_steps = 50\n" + s, "scheduler.type = \"cosine\""), "scheduler.min_lr = 1"), "t.toml, line 9: 'scheduler.min_lr' is 1, above optim.lr = 1e-06"},
      {with(s, "ckpt.keep_best = { }"), "t.toml, line 8: 'ckpt.keep_best' wants val/loss, which nobody measures (add [val])"},
      {with(s, "ckpt.keep_best = { metric = \"loss\" }"), "t.toml, line 8: 'ckpt.keep_best.metric' must be one of \"val/loss\""},
      {with(with(s, "resume.step = 5"), "resume.dir = \"runs/a/checkpoints/step_5\""), "t.toml, line 8: 'resume.dir' and resume.step exclude each other"},
      {with(s, "resume.dir = \"runs/a/checkpoints\""), "t.toml, line 8: 'resume.dir' is 'checkpoints' by name, and a checkpoint is a folder step_N"},
      {with(s, "resume.dir = \"step_01\""), "t.toml, line 8: 'resume.dir' is 'step_01' by name"},
      {with(s, "resume.dir = \"/x/step_5\""), "t.toml, line 8: 'resume.dir' is '/x/step_5', which is not on the volume"},
      {"[model]\nname = \"m\"\n[data]\nname = \"d\"\n", "t.toml: 'renderer.name' is missing: a path on the volume does not say how its model writes conversations"},
      {std::string(kFake) + "[val.data]\nname = \"v\"\n[renderer]\nname = \"qwen3\"\n",
       "t.toml: 'model.name' is missing: the conversations of val.data need a tokenizer (set it, or tokenizer.name)"},
      {std::string(kFake) + "[val.data]\nname = \"v\"\n[tokenizer]\nname = \"t\"\n", "t.toml: 'renderer.name' is missing: a path on the volume"},
      {replaced(s, "\"qwen3\"", "\"auto\""), "t.toml, line 6: 'renderer.name' is \"auto\", and a path on the volume does not say"},
      {replaced(s, "\"qwen3\"", "\"llama3\""), "unsupported: t.toml, line 6: 'renderer.name' is \"llama3\", a renderer that is not built (accepted: \"qwen3\" | \"prime-qwen3\")"},
      {with(replaced(s, "\"qwen3\"", "\"prime-qwen3\""), "renderer.enable_thinking = false"), "t.toml, line 6: 'renderer.enable_thinking' is a setting of name = \"qwen3\""},
      {std::string(kPretrain) + "[renderer]\nname = \"qwen3\"\n", "t.toml, line 6: 'renderer' belongs to mode = \"sft\""},
      {with(s, "env_vars.CUDA_VISIBLE_DEVICES = \"0\""), "t.toml, line 8: 'env_vars.CUDA_VISIBLE_DEVICES' is set by Cairn (leave it out)"},
      {with(s, "env_vars.WANDB_PROJECT = \"0\""), "t.toml, line 8: 'env_vars.WANDB_PROJECT' is set by Cairn"},
      {with(s, "env_vars.A-B = \"0\""), "t.toml, line 8: 'env_vars.A-B' is no name of a variable"},
      {"model = \"x\"\nmode = \"sft\"\n", "t.toml, line 1: 'model' must be a table: [model]"},
      {"x = = 1", "t.toml, line 1: "},
  };
  for (const Refusal& refusal : kRefusals) {
    std::string complaint = said(refusal.text);
    bool right = refusal.complaint.starts_with("'") ? complaint.find(refusal.complaint) != std::string::npos
                                                   : complaint.starts_with(refusal.complaint);
    EXPECT_TRUE(right) << refusal.text << "\nsays:   " << complaint << "\nwanted: " << refusal.complaint;
  }
}

// Every known setting that is not built, in every value of the table: accepted ones pass, others are config_unsupported with name
// and line.
TEST(TrainingConfig, UnbuiltSettings) {
  ASSERT_GT(unbuilt_settings().size(), 50u);
  for (const UnbuiltSetting& setting : unbuilt_settings()) {
    std::string name = (setting.table.empty() ? "" : std::string(setting.table) + ".") + std::string(setting.key);
    std::string base = setting.table == "ckpt" ? std::string(kSft) + "[ckpt]\n" : kSft;
    std::string complaint = said(with(base, name + " = \"something else\""));
    EXPECT_TRUE(complaint.starts_with("unsupported: t.toml, line ")) << name << ": " << complaint;
    EXPECT_NE(complaint.find("'" + name + "'"), std::string::npos) << name << ": " << complaint;
    std::string_view accepted = setting.accepted == "<bool>" ? "true | false" : setting.accepted;
    while (!accepted.empty()) {
      size_t bar = accepted.find(" | ");
      EXPECT_EQ(said(with(base, name + " = " + std::string(accepted.substr(0, bar)))), "accepted") << name;
      accepted.remove_prefix(bar == std::string_view::npos ? accepted.size() : bar + 3);
    }
  }
}

TEST(TrainingConfig, DocumentNamesEveryUnbuiltSetting) {
  std::ifstream file(std::string(CAIRN_SOURCE_DIR) + "/docs/training.md");
  std::stringstream text;
  text << file.rdbuf();
  ASSERT_FALSE(text.str().empty());
  for (const UnbuiltSetting& setting : unbuilt_settings()) {
    std::string name = (setting.table.empty() ? "" : std::string(setting.table) + ".") + std::string(setting.key);
    EXPECT_NE(text.str().find("`" + name + "`"), std::string::npos) << "docs/training.md does not name " << name;
  }
}

// The configs that the users of hosted training have at hand.
TEST(TrainingConfig, WalkthroughsOfHostedTraining) {
  TrainingConfig sft = parsed(R"(max_steps = 10
[ckpt]               # save step 10 to the volume
interval = 10
keep_last = 1
[model]
name = "models/Qwen3-0.6B-Reverse-Text-SFT"
[data]
name = "datasets/reverse-text"
type = "sft"
seq_len = 2048
batch_size = 8
[optim]
lr = 2e-5
[deployment]
type = "single_node"
num_train_gpus = 1
gpus_per_node = 1
[renderer]
name = "prime-qwen3"
)");
  EXPECT_EQ(sft.data.seq_len, 2048);
  EXPECT_EQ(sft.optim.lr, 2e-5);
  TrainingConfig pretrain = parsed(R"(mode = "pretrain"
max_steps = 300
[model]
name = "/volume/models/Qwen3-0.6B"
[data]
paths = ["datasets/tinystories/train"]
seq_len = 1024
batch_size = 64
micro_batch_size = 2
[val]
interval = 50
num_samples = 64
[val.data]
paths = ["datasets/tinystories/val"]
seq_len = 1024
[ckpt]
interval = 50
[deployment]
type = "single_node"
num_train_gpus = 8
)");
  EXPECT_EQ(pretrain.num_processes, 8);
  std::vector<std::string> seen;
  for (const TrainingPath& path : training_paths(pretrain)) seen.push_back(path.key + "=" + path.path);
  EXPECT_EQ(seen, (std::vector<std::string>{"model.name=models/Qwen3-0.6B", "data.paths[0]=datasets/tinystories/train",
                                            "val.data.paths[0]=datasets/tinystories/val"}));
}

TEST(TrainingPaths, Spelling) {
  for (const char* same : {"datasets/x", "datasets/x/", "./datasets//x", "/volume/datasets/x", "/volume//./datasets/x/."}) {
    EXPECT_EQ(*volume_path(same), "datasets/x") << same;
  }
  EXPECT_EQ(*volume_path("volume/x"), "volume/x");
  EXPECT_EQ(*volume_path("..x/...y"), "..x/...y");
  for (const char* wrong : {"", ".", "/", "/volume", "/volume/", "/volumes/x", "/etc", "..", "a/../b", "a\nb", "a\x7f"}) {
    auto path = volume_path(wrong);
    ASSERT_FALSE(path) << wrong;
    EXPECT_EQ(path.error().code(), Code::kConfigInvalid);
  }
  EXPECT_FALSE(volume_path(std::string(5000, 'a')));
  EXPECT_EQ(*on_volume("/mnt/disk", "/volume/a"), "/mnt/disk/a");
  EXPECT_EQ(*on_volume("/", "a"), "/a");
  EXPECT_FALSE(on_volume("/mnt/disk", "../a"));
}

TEST(TrainingPaths, RealDataNeedsAVolume) {
  EXPECT_TRUE(check_volume_given(parsed(kFake), false));
  EXPECT_TRUE(check_volume_given(parsed(kSft), true));
  Status refused = check_volume_given(parsed(kSft), false);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kDataRequiresVolume);
  EXPECT_EQ(refused.error().message(), "model.name is 'm', a path on a volume, and the run has none");
}

TEST(TrainingPaths, FilesOfFolders) {
  using Files = std::vector<std::string>;
  EXPECT_EQ(training_paths(parsed(kSft))[0].files, (Files{"config.json", "tokenizer.json"}));
  EXPECT_EQ(training_paths(parsed(kPretrain))[0].files, Files{"config.json"});
  std::vector<TrainingPath> own = training_paths(parsed(with(kSft, "tokenizer.name = \"t\"")));
  EXPECT_EQ(own[0].files, Files{"config.json"});
  EXPECT_EQ(own[1].files, Files{"tokenizer.json"});
  // Weights, unless they are random or a checkpoint's.
  const Files weights{"model.safetensors", "model.safetensors.index.json"};
  EXPECT_EQ(training_paths(parsed(kSft))[0].one_of, weights);
  EXPECT_EQ(training_paths(parsed(with(kSft, "model.debug.random_init = true")))[0].one_of, Files{});
  EXPECT_EQ(training_paths(parsed(kPretrain))[0].one_of, Files{});
  EXPECT_EQ(training_paths(parsed(with(kSft, "resume.dir = \"runs/a/checkpoints/step_5\"")))[0].one_of, Files{});
  // Fake data beside real conversations to measure on.
  std::string fake = std::string(kFake) + "[model]\nname = \"m\"\n[val.data]\nname = \"v\"\n[renderer]\nname = \"qwen3\"\n";
  EXPECT_EQ(training_paths(parsed(fake))[0].files, (Files{"config.json", "tokenizer.json"}));
  EXPECT_EQ(training_paths(parsed(fake))[0].one_of, weights);
}

TEST(TrainingPaths, ANewRunHasNoCheckpointsOfItsOwn) {
  EXPECT_TRUE(check_begins_anew(parsed(kSft)));
  EXPECT_TRUE(check_begins_anew(parsed(with(kSft, "resume.dir = \"runs/a/checkpoints/step_5\""))));
  for (const std::string& own : {std::string(kSft) + "[resume]\n", with(kSft, "resume.step = 5")}) {
    Status refused = check_begins_anew(parsed(own));
    ASSERT_FALSE(refused) << own;
    EXPECT_EQ(refused.error().code(), Code::kConfigInvalid);
    EXPECT_NE(refused.error().hint().find("dir = \"runs/RUN/checkpoints/step_N\""), std::string::npos);
  }
}

TEST(TrainingPaths, WantedKinds) {
  TrainingConfig config = parsed(std::string(kSft) + "[tokenizer]\nname = \"t\"\n[val.data]\nname = \"v\"\n[resume]\ndir = \"/volume/runs/r/checkpoints/step_5/\"\n");
  std::vector<std::string> seen;
  for (const TrainingPath& path : training_paths(config)) {
    seen.push_back(path.key + "=" + path.path + (path.wanted == PathWanted::kFolder ? "/" : ""));
  }
  EXPECT_EQ(seen, (std::vector<std::string>{"model.name=m/", "tokenizer.name=t/", "data.name=d", "val.data.name=v",
                                            "resume.dir=runs/r/checkpoints/step_5/"}));
}

}  // namespace
}  // namespace cairn::config
