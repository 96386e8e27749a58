#include "agent/usage.h"

#include <algorithm>
#include <map>

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "os/tree.h"

namespace cairn::agent {
namespace {

constexpr int kDepthMax = 1'024;

// What vanished or turned into something else while it was looked at is simply not counted.
bool gone(const Error& error) {
  return error.code() == Code::kFileNotFound || error.code() == Code::kPathTypeConflict || error.code() == Code::kPathInvalid;
}

Status add_folder(const os::Directory& dir, VolumeUse& use, int depth) {
  if (depth > kDepthMax) return ok();
  CAIRN_TRY(std::vector<os::TreeEntry> entries, dir.list());
  for (const os::TreeEntry& entry : entries) {
    if (entry.stat.type == os::FileType::kFile) {
      use.written_bytes += entry.stat.size;
      ++use.written_files;
    } else if (entry.stat.type == os::FileType::kDirectory) {
      auto child = dir.open_directory(entry.name);
      if (!child) {
        if (gone(child.error())) continue;
        return std::move(child).error();
      }
      Status status = add_folder(*child, use, depth + 1);
      if (!status && !gone(status.error())) return status;
    }
  }
  return ok();
}

// Bytes below `relative` of the lower, or of the file there; 0 when there is nothing.
uint64_t lower_bytes(const os::Directory& lower, const std::string& relative) {
  auto stat = lower.stat(relative);
  if (!stat) return 0;
  if (stat->type == os::FileType::kFile) return stat->size;
  if (stat->type != os::FileType::kDirectory) return 0;
  auto dir = lower.open_directory(relative);
  if (!dir) return 0;
  VolumeUse use;
  Status status = add_folder(*dir, use, 0);
  return status ? use.written_bytes : 0;
}

bool is_opaque(const os::Directory& dir) {
  char value[8];
  ssize_t length = ::fgetxattr(dir.fd(), "trusted.overlay.opaque", value, sizeof value);
  return length >= 1 && value[0] == 'y';
}

struct OverlayWalk {
  const os::Directory* lower;
  VolumeUse use;
  uint64_t hidden = 0;  // lower bytes that no longer show
};

Status walk_upper(OverlayWalk& walk, const os::Directory& dir, const std::string& relative, bool over_lower, int depth) {
  if (depth > kDepthMax) return ok();
  CAIRN_TRY(std::vector<os::TreeEntry> entries, dir.list());
  for (const os::TreeEntry& entry : entries) {
    std::string path = relative.empty() ? entry.name : relative + "/" + entry.name;
    if (entry.stat.type == os::FileType::kDirectory) {
      auto child = dir.open_directory(entry.name);
      if (!child) {
        if (gone(child.error())) continue;
        return std::move(child).error();
      }
      bool child_over_lower = over_lower;
      if (over_lower) {
        auto below = walk.lower->stat(path);
        bool folder_below = below && below->type == os::FileType::kDirectory;
        if (below && (!folder_below || is_opaque(*child))) walk.hidden += lower_bytes(*walk.lower, path);
        child_over_lower = folder_below && !is_opaque(*child);
      }
      Status status = walk_upper(walk, *child, path, child_over_lower, depth + 1);
      if (!status && !gone(status.error())) return status;
      continue;
    }
    // A file that replaces, a link, or a whiteout (a device 0:0): what was below no longer counts.
    if (over_lower) walk.hidden += lower_bytes(*walk.lower, path);
    if (entry.stat.type == os::FileType::kFile) {
      walk.use.written_bytes += entry.stat.size;
      ++walk.use.written_files;
    }
  }
  return ok();
}

Status walk_loss(Loss& loss, const os::Directory& dir, const std::string& shown_as, const std::string& relative,
                 const std::vector<std::string>& except, int depth) {
  if (depth > kDepthMax) return ok();
  CAIRN_TRY(std::vector<os::TreeEntry> entries, dir.list());
  for (const os::TreeEntry& entry : entries) {
    std::string path = relative.empty() ? entry.name : relative + "/" + entry.name;
    if (entry.stat.type == os::FileType::kFile) {
      // Empty ones (bubblewrap's mount points among them) lose nothing.
      if (entry.stat.size == 0) continue;
      loss.bytes += entry.stat.size;
      ++loss.files;
      loss.largest.emplace(entry.stat.size, shown_as + "/" + path);
      if (loss.largest.size() > Loss::kPathsMax) loss.largest.erase(loss.largest.begin());
    } else if (entry.stat.type == os::FileType::kDirectory) {
      if (std::find(except.begin(), except.end(), path) != except.end()) continue;
      auto child = dir.open_directory(entry.name);
      if (!child) continue;
      Status status = walk_loss(loss, *child, shown_as, path, except, depth + 1);
      if (!status && !gone(status.error())) return status;
    }
  }
  return ok();
}

}  // namespace

Result<VolumeUse> overlay_use(const std::string& upper, const std::string& lower, uint64_t staged_bytes) {
  CAIRN_TRY(os::Directory upper_dir, os::Directory::open(upper));
  CAIRN_TRY(os::Directory lower_dir, os::Directory::open(lower));
  OverlayWalk walk;
  walk.lower = &lower_dir;
  CAIRN_CHECK_OK(walk_upper(walk, upper_dir, "", true, 0));
  walk.use.live_bytes = (staged_bytes > walk.hidden ? staged_bytes - walk.hidden : 0) + walk.use.written_bytes;
  return walk.use;
}

Result<VolumeUse> folder_use(const std::string& dir) {
  CAIRN_TRY(os::Directory top, os::Directory::open(dir));
  VolumeUse use;
  CAIRN_CHECK_OK(add_folder(top, use, 0));
  use.live_bytes = use.written_bytes;
  return use;
}

Status add_loss(const std::string& dir, const std::string& shown_as, const std::vector<std::string>& except, Loss& loss) {
  auto top = os::Directory::open(dir);
  if (!top) return top.error().code() == Code::kFileNotFound ? ok() : Status(std::move(top).error());
  return walk_loss(loss, *top, shown_as, "", except, 0);
}

std::vector<std::string> Loss::paths() const {
  std::vector<std::string> names;
  for (auto entry = largest.rbegin(); entry != largest.rend(); ++entry) names.push_back(entry->second);
  return names;
}

}  // namespace cairn::agent
