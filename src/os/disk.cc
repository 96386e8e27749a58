#include "os/disk.h"

#include <sys/statfs.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstdio>

namespace cairn::os {
namespace {

struct TypeName {
  uint32_t magic;
  const char* name;
};
constexpr TypeName kTypeNames[] = {{0xef53, "ext4"},       {0x58465342, "xfs"},     {0x9123683e, "btrfs"},
                                   {0x01021994, "tmpfs"},  {0x794c7630, "overlay"}, {0x6969, "nfs"},
                                   {0x0bd00bd0, "lustre"}, {0x65735546, "fuse"},    {0x2fc12fc1, "zfs"},
                                   {0xff534d42, "cifs"},   {0x00c36400, "ceph"},    {0x47504653, "gpfs"}};

}  // namespace

Result<DiskSpace> disk_space(const std::string& path) {
  struct statvfs fs;
  if (statvfs(path.c_str(), &fs) != 0) return Error::from_errno(errno, "read the free space of " + path);
  DiskSpace space;
  space.total_bytes = uint64_t{fs.f_blocks} * fs.f_frsize;
  space.available_bytes = uint64_t{fs.f_bavail} * fs.f_frsize;
  space.total_inodes = fs.f_files;
  space.available_inodes = fs.f_favail;
  return space;
}

Result<std::string> file_system_type(const std::string& path) {
  struct statfs fs;
  if (statfs(path.c_str(), &fs) != 0) return Error::from_errno(errno, "read the file system type of " + path);
  uint32_t magic = static_cast<uint32_t>(fs.f_type);
  for (const TypeName& row : kTypeNames) {
    if (row.magic == magic) return std::string(row.name);
  }
  char hex[16];
  std::snprintf(hex, sizeof hex, "0x%x", magic);
  return std::string(hex);
}

}  // namespace cairn::os
