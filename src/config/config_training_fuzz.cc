// Training configs come from users: no text may crash the reader, and what was accepted must be writable as JSON and hold its
// own promises (paths that stay on the volume, batches that can be shared).
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "config/training_config.h"
#include "config/training_paths.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cairn::config;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  auto config = parse_training_config(text, "fuzz.toml");
  if (!config) return 0;
  std::string json = resolved_training_config(*config);
  CAIRN_CHECK(!json.empty() && json == resolved_training_config(*config));
  CAIRN_CHECK(config->data.batch_size % (config->data.micro_batch_size * config->num_processes) == 0);
  for (const TrainingPath& path : training_paths(*config)) {
    CAIRN_CHECK(!path.path.empty() && path.path.front() != '/');
    auto again = volume_path(path.path);
    CAIRN_CHECK(again && *again == path.path);
    auto placed = on_volume("/volume", path.spelled);
    CAIRN_CHECK(placed && *placed == "/volume/" + path.path);
  }
  return 0;
}
