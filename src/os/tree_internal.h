// Shared by the parts of Directory's implementation only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "os/tree.h"

namespace cairn::os::tree_internal {

// The folder that holds the last segment of a path, and that segment.
struct Parent {
  Fd held;  // empty when the folder is the caller's own
  int fd = -1;
  std::string name;
};

Error path_error(int err, const char* verb, const std::string& folder, std::string_view relative);
Status check_relative(std::string_view relative);
// openat2 beneath `directory`; O_NOFOLLOW and O_CLOEXEC are added.
Result<Fd> open_path(int directory, std::string_view relative, int flags, uint32_t mode, const char* verb,
                     const std::string& folder);
Result<Parent> open_parent(int directory, std::string_view relative, const char* verb, const std::string& folder);
Result<EntryStat> stat_at(int directory, const char* name, int flags, const char* verb, const std::string& folder);

// The first `limit` names in the kernel's order; `more` says whether there are others.
Result<std::vector<std::string>> read_names(const Directory& folder, size_t limit, bool* more);

}  // namespace cairn::os::tree_internal
