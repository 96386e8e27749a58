// Writes the user's configuration file: atomically and readable by its owner only, since it holds the token.
#pragma once

#include <string>

#include "base/result.h"
#include "config/client_settings.h"

namespace cairn::cli {

Status save_settings(const std::string& path, const config::ClientSettings& settings);

}  // namespace cairn::cli
