// Room on the file system that holds a path.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace cairn::os {

struct DiskSpace {
  uint64_t total_bytes = 0;
  uint64_t available_bytes = 0;  // to this user
  uint64_t total_inodes = 0;     // 0 where the file system does not count them
  uint64_t available_inodes = 0;
};
Result<DiskSpace> disk_space(const std::string& path);

// "ext4", "xfs", "btrfs", "tmpfs", "overlay", "nfs", "lustre", "fuse", or the magic number in hex.
Result<std::string> file_system_type(const std::string& path);

}  // namespace cairn::os
