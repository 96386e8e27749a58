#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <vector>

#include "os/tree_internal.h"

namespace cairn::os {
namespace {

using tree_internal::path_error;
using tree_internal::read_names;

// Folders held open on the way down; a deeper one is first moved up to the top.
constexpr size_t kLevelsHeld = 200;
// Names of one folder in memory at a time.
constexpr size_t kNamesAtATime = 20'000;
// Somebody may be adding names meanwhile: rounds without an empty folder before giving up.
constexpr int kRoundsMax = 1'000'000;

class TreeRemover {
 public:
  TreeRemover(const Directory& top, uint64_t device) : top_(top), device_(device) {}

  // Everything in `folder`, which is `depth` levels below the top.
  Status empty(const Directory& folder, size_t depth) {
    for (int round = 0; round < kRoundsMax; ++round) {
      CAIRN_TRY(std::vector<std::string> names, read_names(folder, kNamesAtATime, nullptr));
      if (names.empty()) return ok();
      for (const std::string& name : names) CAIRN_CHECK_OK(remove_entry(folder, name, depth));
    }
    return Error(Code::kFileChanged, "folder " + folder.shown_as() + " fills up as fast as it is emptied");
  }

 private:
  Status remove_entry(const Directory& folder, const std::string& name, size_t depth) {
    if (unlinkat(folder.fd(), name.c_str(), 0) == 0 || errno == ENOENT) return ok();
    // EISDIR on Linux, EPERM on other file systems; a file that may not be removed fails again as a folder.
    int reason = errno;
    if (unlinkat(folder.fd(), name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return ok();
    if (errno == ENOTDIR) return path_error(reason, "remove", folder.shown_as(), name);
    if (errno != ENOTEMPTY && errno != EEXIST && errno != EACCES) {
      return path_error(errno, "remove folder", folder.shown_as(), name);
    }
    if (depth >= kLevelsHeld) return move_up(folder, name);
    {
      CAIRN_TRY(Directory child, open_up(folder, name));
      CAIRN_CHECK_OK(empty(child, depth + 1));
    }
    if (unlinkat(folder.fd(), name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT || errno == ENOTEMPTY) return ok();
    return path_error(errno, "remove folder", folder.shown_as(), name);
  }

  // Opens a folder whose permission bits may forbid it, on this file system only.
  Result<Directory> open_up(const Directory& folder, const std::string& name) {
    Result<Directory> child = folder.open_directory(name);
    bool forbidden = !child && child.error().code() == Code::kFileUnreadable;
    if (forbidden || (child && faccessat(child->fd(), ".", W_OK | X_OK, 0) != 0)) {
      CAIRN_CHECK_OK(folder.set_mode(name, 0700));
      child = folder.open_directory(name);
    }
    if (!child) return child;
    CAIRN_TRY(EntryStat stat, child->stat_self());
    if (stat.device == device_) return child;
    return Error(Code::kPathTypeConflict,
                 "remove folder " + child->shown_as() + ": another file system is mounted there");
  }

  Status move_up(const Directory& folder, const std::string& name) {
    CAIRN_CHECK_OK(open_up(folder, name));
    for (;;) {
      std::string free_name = ".cairn-remove-" + std::to_string(moved_++);
      Status moved = folder.rename_no_replace(name, top_, free_name);
      if (moved || moved.error().code() != Code::kFileExists) return moved;
    }
  }

  const Directory& top_;
  uint64_t device_;
  uint64_t moved_ = 0;
};

}  // namespace

Status Directory::remove_tree(std::string_view relative) const {
  Result<EntryStat> found = stat(relative);
  if (!found && found.error().code() == Code::kFileNotFound) return ok();
  if (!found) return found.error();
  if (found->type != FileType::kDirectory) return remove(relative);
  Result<Directory> opened = open_directory(relative);
  if ((!opened && opened.error().code() == Code::kFileUnreadable) ||
      (opened && faccessat(opened->fd(), ".", W_OK | X_OK, 0) != 0)) {
    CAIRN_CHECK_OK(set_mode(relative, 0700));
    opened = open_directory(relative);
  }
  if (!opened) return opened.error();
  CAIRN_TRY(EntryStat own, opened->stat_self());
  TreeRemover remover(*opened, own.device);
  CAIRN_CHECK_OK(remover.empty(*opened, 0));
  return remove_directory(relative);
}

}  // namespace cairn::os
