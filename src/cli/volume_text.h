// A volume as people and programs see it, for the commands that show one.
#pragma once

#include <string>
#include <vector>

#include "api/types.h"
#include "cli/context.h"

namespace cairn::cli {

// `with_aside`: also "kept_aside", which only a volume that was asked for alone knows.
std::string volume_json(const api::Volume& volume, bool with_aside = false);
// Lines of "Name  research".
std::string volume_text(const api::Volume& volume);
// The size as it was given: "20 GiB".
std::string size_text(uint64_t bytes);
std::string snapshot_json(const api::Snapshot& snapshot);
// The ids of runs that are LOST and may still bring changes to the volume.
std::vector<std::string> lost_writers(const std::vector<api::Run>& runs, const std::string& volume);

}  // namespace cairn::cli
