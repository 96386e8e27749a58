#include "os/mount.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "base/whole_number.h"
#include "os/fd.h"

namespace cairn::os {
namespace {

constexpr size_t kMountinfoBytesMax = 16 << 20;
// The kernel takes one page of options.
constexpr size_t kOptionsBytesMax = 4095;

Error mount_error(const std::string& what) {
  int reason = errno;
  Error error = Error::from_errno(reason, what);
  if (reason == EPERM || reason == EINVAL || reason == ENODEV || reason == EOPNOTSUPP) {
    return Error(Code::kSandboxUnavailable, error.message(),
                 "mounts need root or user namespaces, and an overlay a file system that can hold its upper folder");
  }
  return error;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  size_t start = 0;
  for (;;) {
    size_t end = std::min(text.find(separator, start), text.size());
    parts.push_back(text.substr(start, end - start));
    if (end == text.size()) return parts;
    start = end + 1;
  }
}

// "\040" for a space, and the like.
std::string unescape(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    auto octal = [&](size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '7'; };
    if (text[i] == '\\' && octal(i + 1) && octal(i + 2) && octal(i + 3)) {
      out.push_back(static_cast<char>((text[i + 1] - '0') << 6 | (text[i + 2] - '0') << 3 | (text[i + 3] - '0')));
      i += 3;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

std::vector<std::string> options_of(std::string_view text) {
  std::vector<std::string> options;
  for (std::string_view option : split(text, ',')) options.push_back(unescape(option));
  return options;
}

// id parent major:minor root point options [tag...] - type source super-options
std::optional<MountInfo> parse_line(std::string_view line) {
  std::vector<std::string_view> fields = split(line, ' ');
  auto dash = fields.size() < 6 ? fields.end() : std::find(fields.begin() + 6, fields.end(), "-");
  if (fields.end() - dash < 4) return std::nullopt;
  MountInfo info;
  std::optional<uint64_t> id = whole_number<uint64_t>(fields[0]), parent = whole_number<uint64_t>(fields[1]);
  if (!id || !parent) return std::nullopt;
  info.id = *id;
  info.parent_id = *parent;
  info.root = unescape(fields[3]);
  info.mount_point = unescape(fields[4]);
  info.options = options_of(fields[5]);
  info.fs_type = unescape(dash[1]);
  info.source = unescape(dash[2]);
  info.super_options = options_of(dash[3]);
  return info;
}

Result<std::string> read_proc(const char* path, size_t max_bytes) {
  Fd fd(open(path, O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return Error::from_errno(errno, std::string("open ") + path);
  return read_to_end(fd.get(), max_bytes, path);
}

Status write_proc(const char* path, const std::string& text) {
  Fd fd(open(path, O_WRONLY | O_CLOEXEC));
  if (!fd.valid()) return Error::from_errno(errno, std::string("open ") + path);
  return write_all(fd.get(), {reinterpret_cast<const uint8_t*>(text.data()), text.size()}, path);
}

// An option that is not shown is as the module was loaded.
std::string overlay_default(const std::string& name) {
  Result<std::string> text = read_proc(("/sys/module/overlay/parameters/" + name).c_str(), 64);
  if (!text) return "off";  // a kernel that does not know the option cannot have it on
  return text->starts_with("Y") || text->starts_with("1") ? "on" : "off";
}

Status check_overlay_path(const std::string& path) {
  if (path.find_first_of(",:\\\"\n") == std::string::npos && path.starts_with('/')) return ok();
  return Error(Code::kPathInvalid,
               "'" + path + "' cannot be part of an overlay: it must be absolute, without , : \\ \"",
               "move the node's state folder to a plainer path");
}

Status make_private() {
  // What is mounted from here on must neither reach the outside nor come from it.
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return mount_error("make the mounts private");
  return ok();
}

}  // namespace

Result<std::vector<MountInfo>> parse_mountinfo(std::string_view text) {
  std::vector<MountInfo> mounts;
  for (std::string_view line : split(text, '\n')) {
    if (line.empty()) continue;
    std::optional<MountInfo> info = parse_line(line);
    if (!info) return Error(Code::kDataCorrupt, "not a line of mountinfo: " + std::string(line.substr(0, 200)));
    mounts.push_back(std::move(*info));
  }
  return mounts;
}

Result<std::vector<MountInfo>> current_mounts() {
  CAIRN_TRY(std::string text, read_proc("/proc/thread-self/mountinfo", kMountinfoBytesMax));
  return parse_mountinfo(text);
}

Status enter_mount_namespace() {
  if (unshare(CLONE_NEWNS) != 0) return mount_error("make a mount namespace");
  return make_private();
}

Status enter_user_and_mount_namespace() {
  uid_t uid = geteuid();
  gid_t gid = getegid();
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return mount_error("make a user and mount namespace");
  CAIRN_CHECK_OK(write_proc("/proc/self/setgroups", "deny"));
  CAIRN_CHECK_OK(write_proc("/proc/self/uid_map", "0 " + std::to_string(uid) + " 1"));
  CAIRN_CHECK_OK(write_proc("/proc/self/gid_map", "0 " + std::to_string(gid) + " 1"));
  return make_private();
}

Status verify_overlay(const std::string& target) {
  CAIRN_TRY(std::vector<MountInfo> mounts, current_mounts());
  // The last one on a mount point is the one that is seen.
  auto found =
      std::find_if(mounts.rbegin(), mounts.rend(), [&](const MountInfo& info) { return info.mount_point == target; });
  if (found == mounts.rend() || found->fs_type != "overlay") {
    return Error(Code::kSandboxUnavailable, target + " is not an overlay in /proc/self/mountinfo");
  }
  for (const char* name : {"redirect_dir", "metacopy", "index"}) {
    std::string prefix = std::string(name) + "=";
    auto shown = std::find_if(found->super_options.begin(), found->super_options.end(),
                              [&](const std::string& option) { return option.starts_with(prefix); });
    std::string value = shown == found->super_options.end() ? overlay_default(name) : shown->substr(prefix.size());
    // redirect_dir=off is shown as what it does with redirects that are there already.
    bool is_off = value == "off" || value == "nofollow" || value == "follow";
    if (!is_off) {
      return Error(Code::kSandboxUnavailable,
                   "the overlay at " + target + " has " + prefix + value + " although it was switched off",
                   "load the kernel module with redirect_dir=0 metacopy=0 index=0");
    }
  }
  return ok();
}

Status mount_overlay(const OverlaySpec& spec) {
  std::string lowers;
  for (const std::string& lower : spec.lowers) {
    CAIRN_CHECK_OK(check_overlay_path(lower));
    lowers += (lowers.empty() ? "" : ":") + lower;
  }
  CAIRN_CHECK_OK(check_overlay_path(spec.upper));
  CAIRN_CHECK_OK(check_overlay_path(spec.work));
  // With userxattr the kernel takes no "off" that may mean "follow what is there".
  std::string switched_off = spec.user_xattrs ? ",userxattr,redirect_dir=nofollow,metacopy=off,index=off"
                                              : ",redirect_dir=off,metacopy=off,index=off";
  std::string options = "lowerdir=" + lowers + ",upperdir=" + spec.upper + ",workdir=" + spec.work + switched_off;
  if (options.size() > kOptionsBytesMax) {
    return Error(Code::kLimitExceeded,
                 "the overlay's folders have too long names (" + std::to_string(options.size()) + " bytes)");
  }
  if (mount("overlay", spec.target.c_str(), "overlay", MS_NOSUID | MS_NODEV, options.c_str()) != 0) {
    return mount_error("mount an overlay at " + spec.target);
  }
  Status verified = verify_overlay(spec.target);
  if (!verified) static_cast<void>(unmount_lazily(spec.target).has_value());
  return verified;
}

Status bind_mount(const std::string& from, const std::string& to, bool read_only) {
  if (mount(from.c_str(), to.c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0) {
    return mount_error("mount " + from + " at " + to);
  }
  if (!read_only) return ok();
  if (mount(nullptr, to.c_str(), nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV, nullptr) == 0)
    return ok();
  Error error = mount_error("make " + to + " read-only");
  static_cast<void>(unmount_lazily(to).has_value());
  return error;
}

Status mount_tmpfs(const std::string& target, uint64_t size_bytes) {
  std::string options = "mode=0755,size=" + std::to_string(size_bytes);
  if (mount("tmpfs", target.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, options.c_str()) != 0) {
    return mount_error("mount a tmpfs at " + target);
  }
  return ok();
}

Status unmount(const std::string& target) {
  if (umount2(target.c_str(), UMOUNT_NOFOLLOW) != 0) return Error::from_errno(errno, "unmount " + target);
  return ok();
}

Status unmount_lazily(const std::string& target) {
  if (umount2(target.c_str(), UMOUNT_NOFOLLOW | MNT_DETACH) != 0) return Error::from_errno(errno, "unmount " + target);
  return ok();
}

}  // namespace cairn::os
