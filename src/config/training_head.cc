#include "config/training_head.h"

#include "config/nearest.h"
#include "config/toml_reader.h"

namespace cairn::config {

Result<TrainingHead> read_training_head(std::string_view text, const std::string& file) {
  CAIRN_TRY(TomlReader reader, TomlReader::parse(text, file));
  TrainingHead head;
  TomlSection top = reader.top();
  top.text("engine", head.engine);
  top.text("mode", head.mode);
  top.text("volume", head.volume);
  top.text("gpu_type", head.gpu_type);
  for (const std::string& key : top.keys()) {
    for (const char* known : {"engine", "volume", "mode", "gpu_type"}) {
      // "model" is a word of its own in training configs.
      bool mistyped = key != known && key != "model" && !top.has(known) && top.is_text(key) && edit_distance(key, known, 1) == 1;
      if (mistyped) top.complain(key, "is not known", "did you mean '" + std::string(known) + "'?");
    }
  }
  top.ignore_rest();
  CAIRN_CHECK_OK(reader.finish());
  return head;
}

}  // namespace cairn::config
