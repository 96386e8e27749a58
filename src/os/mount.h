// Mounts of a run, in a mount namespace of its own so that a killed process leaves none behind. An overlay is mounted with
// redirect_dir, metacopy and index switched off explicitly, and the kernel's own account of it is checked afterwards: with any of
// them on, upper no longer holds plain files and what is synced would be wrong (RULES F4).
//
// enter_mount_namespace changes the calling thread only; call it before any other thread exists.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cairn::os {

struct MountInfo {
  uint64_t id = 0;
  uint64_t parent_id = 0;
  std::string root;
  std::string mount_point;
  std::string fs_type;
  std::string source;
  std::vector<std::string> options;        // of this mount
  std::vector<std::string> super_options;  // of the file system
};

// Text of /proc/<pid>/mountinfo; data_corrupt for a line that is not one. Octal escapes are undone.
Result<std::vector<MountInfo>> parse_mountinfo(std::string_view text);
// Of the calling thread's namespace.
Result<std::vector<MountInfo>> current_mounts();

// A private copy of all mounts: nothing done from here on shows outside, nothing done outside shows here.
Status enter_mount_namespace();
// The same as an unprivileged user who becomes root of a new user namespace (the ids are mapped to the caller's).
Status enter_user_and_mount_namespace();

struct OverlaySpec {
  std::vector<std::string> lowers;  // the topmost first
  std::string upper;
  std::string work;  // an empty folder on upper's file system
  std::string target;
  bool user_xattrs = false;  // inside a user namespace
};
// sandbox_unavailable, with the kernel's reason, when the kernel refuses; the mount is undone when its options are not as asked.
Status mount_overlay(const OverlaySpec& spec);
// What mount_overlay checks: ok, or sandbox_unavailable naming the option.
Status verify_overlay(const std::string& target);

// Everything below `from` too.
Status bind_mount(const std::string& from, const std::string& to, bool read_only);
Status mount_tmpfs(const std::string& target, uint64_t size_bytes);
Status unmount(const std::string& target);
// Detaches at once; the kernel lets go when the last user does.
Status unmount_lazily(const std::string& target);

}  // namespace cairn::os
