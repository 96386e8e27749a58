// The paths of a training config: what a run reads, spelled relative to its volume or as /volume/…, and what must lie there.
//
//   for (const TrainingPath& path : training_paths(config)) look_at(path.path);       // "datasets/reverse-text"
//   CAIRN_TRY(std::string file, on_volume("/mnt/disk", config.model.name));           // "/mnt/disk/models/qwen3"
//
// Pure: nothing is looked at here. No path leaves the volume by its spelling (symbolic links are the reader's concern: trainer/volume_paths.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/training_config.h"

namespace cairn::config {

// The path relative to the volume's root, without ".", doubled or final slashes. config_invalid for "..", for absolute paths
// outside /volume, for the root itself and for control characters.
Result<std::string> volume_path(std::string_view spelled);

// The same below another root: where the trainer finds it. `root` has no final slash (or is "/").
Result<std::string> on_volume(const std::string& root, std::string_view spelled);

enum class PathWanted { kFolder, kFileOrFolder };

struct TrainingPath {
  std::string key;      // "data.name", "data.paths[1]"
  std::string spelled;  // as the config says it
  std::string path;     // relative to the volume
  PathWanted wanted = PathWanted::kFolder;
  std::vector<std::string> files;   // that must lie in the folder: "config.json"
  std::vector<std::string> one_of;  // one of which must; may be empty
};

// Every path the run reads, in the order of the config's tables; none: the run needs no volume.
// REQUIRES: `parse_training_config` made this config.
std::vector<TrainingPath> training_paths(const TrainingConfig& config);

// data_requires_volume, naming the first path, when the run reads something and has no volume.
Status check_volume_given(const TrainingConfig& config, bool given);

// config_invalid when the run would go on from checkpoints of its own: each run of a server begins with an empty folder.
Status check_begins_anew(const TrainingConfig& config);

}  // namespace cairn::config
