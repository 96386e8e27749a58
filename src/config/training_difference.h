// In which keys two resolved training configs differ: for a run that goes on from a checkpoint of another config.
//
// Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cairn::config {

// One text for each key that differs, in the order of the texts: "optim.lr was 0.001 and is 0.002", values cut to some 60 bytes. Both are
// texts of `resolved_training_config`, `then` perhaps of another version of it; nothing comes of what is none.
std::vector<std::string> config_differences(std::string_view then, std::string_view now);

}  // namespace cairn::config
