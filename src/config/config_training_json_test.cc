// The resolved config: as TOML again it is the same config, and no setting is lost in it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/random.h"
#include "config/toml_reader.h"
#include "config/training_config.h"
#include "config/training_difference.h"

namespace cairn::config {
namespace {

using Json = nlohmann::ordered_json;

std::string value_toml(const Json& value);

std::string key_toml(const std::string& key) { return quote_toml(key); }

std::string value_toml(const Json& value) {
  if (value.is_string()) return quote_toml(value.get<std::string>());
  if (value.is_array()) {
    std::string text = "[";
    for (const Json& item : value) text += (text.size() > 1 ? ", " : "") + value_toml(item);
    return text + "]";
  }
  if (!value.is_object()) return value.dump();
  std::string text = "{";
  for (const auto& [key, item] : value.items()) {
    if (!item.is_null()) text += (text.size() > 1 ? ", " : "") + key_toml(key) + " = " + value_toml(item);
  }
  return text + "}";
}

// null is TOML's absence.
std::string json_toml(const std::string& json) {
  Json parsed = Json::parse(json);
  std::string text;
  for (const auto& [key, value] : parsed.items()) {
    if (!value.is_null()) text += key_toml(key) + " = " + value_toml(value) + "\n";
  }
  return text;
}

void expect_same_again(const std::string& text) {
  auto config = parse_training_config(text, "t.toml");
  ASSERT_TRUE(config) << config.error().to_string() << "\n" << text;
  std::string json = resolved_training_config(*config);
  auto again = parse_training_config(json_toml(json), "resolved.toml");
  ASSERT_TRUE(again) << again.error().to_string() << "\n" << json_toml(json);
  EXPECT_EQ(resolved_training_config(*again), json) << text;
}

struct Setting {
  const char* table;
  const char* line;
};

// Values that differ from the defaults, each alone acceptable.
constexpr Setting kSft[] = {
    {"", "volume = \"research\""},
    {"", "gpu_type = \"H200:8\""},
    {"", "max_steps = 1000"},
    {"", "seed = 9223372036854775807"},
    {"", "dist_timeout_seconds = 60"},
    {"env_vars", "A = \"\\\"\\\\\\n\u00e9\""},
    {"model", "seq_len = 4096"},
    {"model", "dtype = \"float32\""},
    {"model", "fused_lm_head_token_chunk_size = \"disabled\""},
    {"model.ac", "freq = 2"},
    {"model.debug", "num_layers = 3"},
    {"model.debug", "random_init = true"},
    {"tokenizer", "name = \"tokenizers/\u00e9\""},
    {"data", "shuffle = false"},
    {"data", "seed = 7"},
    {"data", "batch_size = 64"},
    {"data", "micro_batch_size = 4"},
    {"data", "seq_len = 1000"},
    {"data.loss_mask", "system = true"},
    {"data.loss_mask", "user = true"},
    {"data.loss_mask", "assistant = false"},
    {"data.loss_mask", "tool = true"},
    {"val", "interval = 7"},
    {"val", "eval_on_start = true"},
    {"val.data", "batch_size = 2"},
    {"optim", "lr = 0.1"},
    {"optim", "weight_decay = 0.30000000000000004"},
    {"optim", "max_norm = \"none\""},
    {"optim", "betas1 = 0.5"},
    {"optim", "betas2 = 0.5"},
    {"ckpt", "interval = 5"},
    {"ckpt", "keep_last = 2"},
    {"ckpt", "keep_interval = 50"},
    {"ckpt", "keep_best = { metric = \"val/perplexity\", n = 3, mode = \"max\" }"},
    {"ckpt", "skip_progress = true"},
    {"ckpt", "skip_scheduler = true"},
    {"ckpt", "skip_dataloader = true"},
    {"ckpt", "skip_optimizer = true"},
    {"resume", "step = 12"},
    {"renderer", "enable_thinking = false"},
    {"deployment", "num_train_gpus = 2"},
    {"monitors", "file = false"},
    {"monitors", "tensorboard = false"},
    {"log", "level = \"debug\""},
    {"log", "json_logging = true"},
    {"log", "interval = 1"},
};

std::string render(const std::vector<Setting>& settings) {
  std::map<std::string, std::string> tables{
      {"model", "name = \"m\"\n"}, {"data", "name = \"d\"\n"}, {"renderer", "name = \"qwen3\"\n"}, {"val.data", "name = \"v\"\n"}};
  for (const Setting& setting : settings) tables[setting.table] += std::string(setting.line) + "\n";
  std::string text = tables[""];
  for (const auto& [table, lines] : tables) {
    if (!table.empty()) text += "[" + table + "]\n" + lines;
  }
  return text;
}

TEST(ResolvedConfig, NoSettingIsLost) {
  auto plain = parse_training_config(render({}), "t.toml");
  ASSERT_TRUE(plain) << plain.error().to_string();
  for (const Setting& setting : kSft) {
    std::string text = render({setting});
    auto config = parse_training_config(text, "t.toml");
    ASSERT_TRUE(config) << config.error().to_string() << "\n" << text;
    EXPECT_NE(resolved_training_config(*config), resolved_training_config(*plain)) << setting.line;
    expect_same_again(text);
  }
}

TEST(ResolvedConfig, RandomConfigsComeBack) {
  const uint64_t seed = 20'261'104;
  SCOPED_TRACE(seed);
  SeededRandom random(seed);
  for (int round = 0; round < 200; ++round) {
    std::vector<Setting> chosen;
    for (const Setting& setting : kSft) {
      if (random.below(3) == 0) chosen.push_back(setting);
    }
    expect_same_again(render(chosen));
  }
}

TEST(ResolvedConfig, OtherKindsComeBack) {
  for (const char* optim : {"type = \"sgd\"\nmomentum = 0.5\nnesterov = false", "type = \"sign_sgd\"\nlr = 1",
                            "type = \"muon\"\nmu = 0.9\nbetas2 = 0.9", "type = \"adamw\""}) {
    for (const char* scheduler : {"type = \"constant\"", "type = \"linear\"\nwarmup_steps = 3\ndecay_steps = 0\nmin_lr = 1e-9",
                                  "type = \"linear\"", "type = \"cosine\"\nwarmup_steps = 0"}) {
      std::string tail = std::string("[optim]\n") + optim + "\n[scheduler]\n" + scheduler + "\n";
      expect_same_again("max_steps = 50\n" + render({}) + tail);
      expect_same_again("mode = \"pretrain\"\nmax_steps = 50\n[model]\nname = \"m\"\n[data]\npaths = [\"a\", \"b\"]\n[val]\nnum_samples = 9\n"
                        "[val.data]\npaths = [\"c\"]\n" + tail);
    }
  }
  expect_same_again("mode = \"sft\"\n[data]\ntype = \"fake\"\nlength = \"variable\"\ninput_ids = \"random\"\nseed = 4\n");
  expect_same_again("mode = \"pretrain\"\n[data]\ntype = \"fake\"\n[model]\nname = \"m\"\n[resume]\ndir = \"runs/x/checkpoints/step_3\"\n");
  expect_same_again("mode = \"sft\"\n[deployment]\nnum_train_gpus = 16\ngpus_per_node = 16\n[data]\ntype = \"fake\"\n");
}

TEST(TrainingDifference, NamesTheKeysWithBothValues) {
  TrainingConfig then;
  then.data.name = "chats";
  then.optim.lr = 0.001;
  TrainingConfig now = then;
  auto differences = [&] { return config_differences(resolved_training_config(then), resolved_training_config(now)); };
  EXPECT_TRUE(differences().empty());
  now.optim.lr = 0.25;
  now.data.name = "other/" + std::string(100, 'x');
  now.ckpt.emplace();
  now.ckpt->interval = 5;
  std::vector<std::string> seen = differences();
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0].substr(0, 34), "data.name was \"chats\" and is \"othe");
  EXPECT_LT(seen[0].size(), 110u);
  EXPECT_EQ(seen[1], "optim.lr was 0.001 and is 0.25");
  EXPECT_EQ(seen[2].substr(0, 26), "ckpt was not set and is {\"");
}

TEST(TrainingDifference, TakesTextsOfOtherVersions) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(config_differences(R"({"a":1,"gone":2,"b":{"c":[1]}})", R"({"a":1,"new":null,"b":{"c":[1,2]}})"),
            (Texts{"b.c was [1] and is [1,2]", "gone was 2 and is not set"}));
  for (const std::string& none : {std::string(), std::string("[]"), std::string("{"), std::string(100'000, '[')}) {
    EXPECT_EQ(config_differences(none, R"({"a":1})"), Texts{});
  }
}

}  // namespace
}  // namespace cairn::config
