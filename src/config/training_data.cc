#include "config/training_sections.h"

namespace cairn::config {
namespace {

constexpr int64_t kSeedMax = INT64_MAX;

void read_seed(TomlSection section, uint64_t& seed) {
  auto number = static_cast<int64_t>(seed);
  if (section.number("seed", number, 0, kSeedMax)) seed = static_cast<uint64_t>(number);
}

void read_loss_mask(TomlSection section, LossMask& mask) {
  section.boolean("system", mask.system);
  section.boolean("user", mask.user);
  section.boolean("assistant", mask.assistant);
  section.boolean("tool", mask.tool);
}

void read_conversations(TomlSection section, DataSettings& data) {
  refuse_foreign(section, {"paths", "length", "input_ids"}, "sft");
  refuse_unbuilt(section, "data");
  section.text("name", data.name);
  section.boolean("shuffle", data.shuffle);
  read_loss_mask(section.section("loss_mask"), data.loss_mask);
}

void read_shards(TomlSection section, DataSettings& data) {
  refuse_foreign(section, {"name", "loss_mask", "length", "input_ids", "subsets", "splits"}, "shards");
  section.texts("paths", data.paths);
  section.boolean("shuffle", data.shuffle);
}

void read_fake(TomlSection section, DataSettings& data) {
  refuse_foreign(section, {"name", "paths", "loss_mask", "shuffle", "subsets", "splits"}, "fake");
  std::string length = "fixed", ids = "increasing";
  section.choice("length", length, {"fixed", "variable"});
  section.choice("input_ids", ids, {"increasing", "random"});
  data.fake_variable_length = length == "variable";
  data.fake_random_ids = ids == "random";
}

// The part of [data] and [val.data] that all kinds have; `kinds` the types this place allows, the default first.
void read_block(TomlSection section, const std::vector<std::string>& kinds, DataSettings& data) {
  std::string type = kinds[0];
  section.choice("type", type, kinds);
  data.kind = type == "sft" ? DataKind::kSft : type == "shards" ? DataKind::kShards : DataKind::kFake;
  section.number("batch_size", data.batch_size, 1, kRowsPerBatchMax);
  section.number("micro_batch_size", data.micro_batch_size, 1, kRowsPerBatchMax);
  section.number("seq_len", data.seq_len, 1, kTokensPerRowMax);
  read_seed(section, data.seed);
  int64_t workers = 1;  // each process makes its rows itself, one before each pass
  section.number("num_workers", workers, 1, kProcessesMax);
  switch (data.kind) {
    case DataKind::kSft: return read_conversations(section, data);
    case DataKind::kShards: return read_shards(section, data);
    case DataKind::kFake: return read_fake(section, data);
  }
}

}  // namespace

void read_data(TomlSection section, TrainingMode mode, DataSettings& data) {
  read_block(section, {mode == TrainingMode::kSft ? "sft" : "shards", "fake"}, data);
}

void read_validation(TomlSection section, TrainingMode mode, ValidationSettings& val) {
  section.number("interval", val.interval, 1, kStepsMax);
  section.boolean("eval_on_start", val.eval_on_start);
  if (mode == TrainingMode::kPretrain) {
    section.number("num_samples", val.num_samples, 1, kStepsMax);
  } else if (section.has("num_samples")) {
    section.complain("num_samples", "is a setting of mode = \"pretrain\": here one epoch of val.data is measured");
  }
  read_block(section.section("data"), {mode == TrainingMode::kSft ? "sft" : "shards"}, val.data);
}

void read_renderer(TomlSection section, RendererSettings& renderer) {
  refuse_unbuilt(section, "renderer");
  std::string name;
  if (!section.text("name", name) || name == "auto") return;  // whether that is enough depends on the data
  if (name == "qwen3") {
    renderer.kind = RendererKind::kQwen3;
    section.boolean("enable_thinking", renderer.enable_thinking);
  } else if (name == "prime-qwen3") {
    renderer.kind = RendererKind::kPrimeQwen3;
    if (section.has("enable_thinking")) section.complain("enable_thinking", "is a setting of name = \"qwen3\"");
  } else {
    section.refuse("name", "is " + section.shown("name") + ", a renderer that is not built", "accepted: \"qwen3\" | \"prime-qwen3\"");
  }
}

}  // namespace cairn::config
