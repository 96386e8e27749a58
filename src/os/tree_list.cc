#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>

#include "os/tree_internal.h"

namespace cairn::os {
namespace tree_internal {

Result<std::vector<std::string>> read_names(const Directory& folder, size_t limit, bool* more) {
  constexpr size_t kBufferBytes = 64 * 1024;
  auto buffer = std::make_unique<char[]>(kBufferBytes);
  if (lseek(folder.fd(), 0, SEEK_SET) < 0) return path_error(errno, "list", folder.shown_as(), {});
  if (more) *more = false;
  std::vector<std::string> names;
  for (;;) {
    long got = syscall(SYS_getdents64, folder.fd(), buffer.get(), kBufferBytes);
    if (got < 0) return path_error(errno, "list", folder.shown_as(), {});
    if (got == 0) return names;
    for (long at = 0; at < got;) {
      const char* record = buffer.get() + at;
      uint16_t length;
      std::memcpy(&length, record + offsetof(dirent64, d_reclen), sizeof length);
      at += length;
      const char* name = record + offsetof(dirent64, d_name);
      if (name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'))) continue;
      if (names.size() == limit) {
        if (more) *more = true;
        return names;
      }
      names.emplace_back(name);
    }
  }
}

}  // namespace tree_internal

Result<std::vector<std::string>> Directory::list_names(size_t limit) const {
  bool more = false;
  CAIRN_TRY(std::vector<std::string> names, tree_internal::read_names(*this, limit, &more));
  if (more) {
    return Error(Code::kLimitExceeded, "folder " + shown_as_ + " holds more than " + std::to_string(limit) + " names");
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::vector<TreeEntry>> Directory::list(size_t limit) const {
  CAIRN_TRY(std::vector<std::string> names, list_names(limit));
  std::vector<TreeEntry> entries;
  entries.reserve(names.size());
  for (std::string& name : names) {
    Result<EntryStat> stat =
        tree_internal::stat_at(fd_.get(), name.c_str(), AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, "stat", shown_as_);
    if (!stat && stat.error().code() == Code::kFileNotFound) continue;
    if (!stat) return stat.error();
    TreeEntry entry;
    entry.name = std::move(name);
    entry.stat = *stat;
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace cairn::os
