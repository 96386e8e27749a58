#include "config/training_sections.h"

namespace cairn::config {
namespace {

constexpr int64_t kLayersMax = 10'000;

}  // namespace

void read_model(TomlSection section, ModelSettings& model) {
  refuse_unbuilt(section, "model");
  section.text("name", model.name);
  int64_t seq_len = 0;
  if (section.number("seq_len", seq_len, 1, kTokensPerRowMax)) model.seq_len = seq_len;
  section.choice("dtype", model.dtype, {"auto", "float32", "bfloat16"});
  const std::string chunk = "fused_lm_head_token_chunk_size";
  std::string disabled;
  if (!section.is_text(chunk)) {
    section.number(chunk, model.head_token_chunk_size, 1, kTokensPerRowMax);
  } else if (section.choice(chunk, disabled, {"disabled"})) {
    model.head_token_chunk_size = 0;
  }
  model.activation_checkpointing = section.has("ac");
  TomlSection ac = section.section("ac");
  refuse_unbuilt(ac, "model.ac");
  ac.number("freq", model.activation_checkpointing_freq, 1, kLayersMax);
  TomlSection debug = section.section("debug");
  refuse_unbuilt(debug, "model.debug");
  debug.boolean("random_init", model.random_init);
  debug.number("num_layers", model.num_layers, 1, kLayersMax);
}

void read_tokenizer(TomlSection section, TokenizerSettings& tokenizer) {
  refuse_unbuilt(section, "tokenizer");
  section.text("name", tokenizer.name);
}

}  // namespace cairn::config
