// Where a path of a training config lies on this machine.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace cairn::trainer {

// As config::on_volume; also config_invalid when a symbolic link on the way leads out of `root`. The root itself may be a link, and links
// that stay below it are followed. What is not there is for the reader to say.
Result<std::string> path_on_volume(const std::string& root, std::string_view spelled);

}  // namespace cairn::trainer
