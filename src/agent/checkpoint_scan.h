// Which checkpoints of a run are complete, as the folder on the node shows it: the trainer's marker, or the index of a sharded
// model with all its shards.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"

namespace cairn::agent {

// The highest step_<N> below `checkpoints_dir` (relative to the mounted volume `top`) that is complete.
Result<std::optional<uint64_t>> newest_complete_step(const std::string& top, const std::string& checkpoints_dir);

}  // namespace cairn::agent
