#include <fmt/format.h>

#include "config/training_sections.h"

namespace cairn::config {
namespace {

// `accepted` lists values as TOML writes them, separated by " | "; <bool> is both. Nothing: refused whatever it says.
constexpr UnbuiltSetting kSettings[] = {
    {"", "clean", "false", "every run has a folder of its own, which nothing cleans"},
    {"", "run", "", "a run is known by its id, and its folder is runs/<id>"},
    {"", "matmul_precision", "\"highest\" | \"high\" | \"medium\"", "that is no precision"},
    {"", "heartbeat", "", "the node's agent watches over the run"},
    {"", "memory_profiler_path", "", "there is no memory profiler"},
    {"", "trace_path", "", "there is no tracer"},
    {"", "dry_run", "false", "'cairn train CONFIG --dry-run' checks a config"},
    {"", "slurm", "", "runs are placed by Cairn"},
    {"", "image_tag", "", "runs use the programs of their node, no image"},
    {"", "env_file", "", "variables stand in [env_vars]"},
    {"", "env_files", "", "variables stand in [env_vars]"},
    {"", "wandb", "", "metrics go to metrics.jsonl and TensorBoard files in the run's folder"},
    {"", "eval", "", "there are no online evaluations; [val] measures the held-out loss"},
    {"", "inference", "", "there is no inference server"},
    {"", "weight_broadcast", "", "there is no inference server to send weights to"},
    {"", "trainer", "", "reinforcement learning is not part of this trainer"},
    {"", "orchestrator", "", "reinforcement learning is not part of this trainer"},
    {"", "teacher", "", "reinforcement learning is not part of this trainer"},
    {"", "env", "", "reinforcement learning is not part of this trainer"},
    {"", "environments", "", "reinforcement learning is not part of this trainer"},
    {"", "sampling", "", "reinforcement learning is not part of this trainer"},
    {"", "buffer", "", "reinforcement learning is not part of this trainer"},
    {"", "advantage", "", "reinforcement learning is not part of this trainer"},
    {"", "rollouts_per_example", "", "reinforcement learning is not part of this trainer"},

    {"model", "trust_remote_code", "false", "no code is loaded from model folders"},
    {"model", "impl", "\"auto\" | \"custom\"", "the model code is Cairn's own"},
    {"model", "attn", "\"auto\"", "there is one attention: exact, and the device's fused kernel where it has one"},
    {"model", "optimization_dtype", "\"float32\"", "master weights and moments are float32"},
    {"model", "reduce_dtype", "\"float32\"", "gradients are summed in float32"},
    {"model", "compile", "", "there is nothing to compile"},
    {"model", "ac_offloading", "", "activations stay on their device; [model.ac] recomputes them instead"},
    {"model", "fsdp_cpu_offload", "false", "weights stay on their device"},
    {"model", "optim_cpu_offload", "<bool>", "that is neither true nor false"},
    {"model", "full_offload", "\"none\"", "weights stay on their device"},
    {"model", "dp_replicate", "1", "every process holds the whole model already"},
    {"model", "ep", "\"auto\" | 1", "expert parallelism belongs to mixtures of experts; models are dense"},
    {"model", "ep_comm_backend", "\"torch\"", "expert parallelism belongs to mixtures of experts; models are dense"},
    {"model", "cp", "1", "context parallelism is not built: a row lies whole in one process"},
    {"model", "cp_style", "\"ring\"", "context parallelism is not built"},
    {"model", "reshard_after_forward", "<bool>", "that is neither true nor false"},
    {"model", "quantization", "", "weights are trained in float32 with bfloat16 arithmetic at most"},
    {"model", "lora", "", "all weights are trained; adapters are not built"},
    {"model", "vlm", "", "models take text only"},
    {"model", "conversion_dir", "", "weights are read as they are; 'cairn-trainer export' and 'import' convert checkpoints"},
    {"model.ac", "mode", "\"full\"", "whole layers are recomputed"},
    {"model.ac", "targets", "", "whole layers are recomputed"},
    {"model.debug", "force_balanced_routing", "false", "it belongs to mixtures of experts; models are dense"},

    {"tokenizer", "trust_remote_code", "false", "no code is loaded from tokenizer folders"},
    {"tokenizer", "chat_template", "", "conversations are rendered by [renderer], not by a Jinja template"},

    {"data", "subsets", "", "name the subset's own folder or file in data.name"},
    {"data", "splits", "", "name the split's own folder or file in data.name"},
    {"data", "probabilities", "", "one data set is read, in its own proportions"},
    {"data", "stopping_strategy", "\"all_exhausted\" | \"first_exhausted\"", "one data set is read, to its end"},
    {"data", "pack_function", "\"cat\"", "samples are packed one after the other"},

    {"renderer", "chat_template", "", "renderers are built in"},

    {"ckpt", "resume_step", "", "write [resume] with step = N"},
    {"ckpt", "weights_only", "", "a checkpoint is always whole; 'cairn-trainer export' writes its weights alone"},
    {"ckpt", "weights", "", "a checkpoint is always whole; 'cairn-trainer export' writes its weights alone"},

    {"deployment", "num_train_nodes", "", "a run uses one node"},
    {"deployment", "num_infer_nodes", "", "a run uses one node"},
    {"deployment", "nodes_per_fsdp_group", "", "a run uses one node"},

    {"monitors", "wandb", "", "metrics go to metrics.jsonl and TensorBoard files in the run's folder"},
    {"monitors", "prime", "", "metrics go to metrics.jsonl and TensorBoard files in the run's folder"},
    {"monitors.file", "path", "\"metrics.jsonl\"", "the file has one name, so that everybody finds it"},

    {"log", "log_data", "false", "samples are not written to the log"},
};

bool accepts(const std::string& shown, std::string_view accepted) {
  while (!accepted.empty()) {
    size_t bar = accepted.find(" | ");
    std::string_view one = accepted.substr(0, bar);
    accepted.remove_prefix(bar == std::string_view::npos ? accepted.size() : bar + 3);
    if (one == shown) return true;
    if (one == "<bool>" && (shown == "true" || shown == "false")) return true;
  }
  return false;
}

std::string readable(std::string_view accepted) {
  if (accepted == "<bool>") return "true or false";
  return std::string(accepted);
}

}  // namespace

const std::vector<UnbuiltSetting>& unbuilt_settings() {
  static const std::vector<UnbuiltSetting> settings(std::begin(kSettings), std::end(kSettings));
  return settings;
}

void refuse_unbuilt(TomlSection section, std::string_view table) {
  for (const UnbuiltSetting& setting : kSettings) {
    if (setting.table != table) continue;
    std::string key(setting.key);
    section.know(key);
    if (!section.has(key)) continue;
    if (setting.accepted.empty()) {
      section.refuse(key, fmt::format("is not built: {}", setting.why), "leave it out");
    } else if (std::string shown = section.shown(key); !accepts(shown, setting.accepted)) {
      section.refuse(key, fmt::format("cannot be {}: {}", shown, setting.why), "accepted: " + readable(setting.accepted));
    }
  }
  if (table != "model") return;
  for (const std::string& key : section.keys()) {
    if (key.starts_with("moe_")) section.refuse(key, "is not built: mixtures of experts are not part of this trainer", "leave it out");
  }
}

void refuse_foreign(TomlSection section, const std::vector<std::string>& keys, const std::string& type) {
  for (const std::string& key : keys) {
    if (section.has(key)) section.complain(key, "is no setting of type = \"" + type + "\"");
  }
}

}  // namespace cairn::config
