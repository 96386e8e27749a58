#include "os/tree.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>

#include "base/check.h"
#include "base/limits.h"
#include "os/timestamp.h"
#include "os/tree_internal.h"

namespace cairn::os {
namespace {

// One system call takes a path of at most 4,095 bytes.
constexpr size_t kPiecePathBytes = 4000;

std::atomic<bool> openat2_is_missing{false};

int open_beneath(int directory, const char* path, int flags, uint32_t mode) {
  open_how how{};
  how.flags = static_cast<uint64_t>(flags);
  how.mode = flags & O_CREAT ? mode : 0;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  for (;;) {
    int fd = static_cast<int>(syscall(SYS_openat2, directory, path, &how, sizeof how));
    // EAGAIN: somebody renamed while the kernel looked.
    if (fd >= 0 || (errno != EINTR && errno != EAGAIN)) return fd;
  }
}

// The same promise without openat2: no segment may be a link.
int open_segment_by_segment(int directory, const std::string& path, int flags, uint32_t mode) {
  Fd held;
  int at = directory;
  size_t start = 0;
  for (size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', start)) {
    std::string segment = path.substr(start, slash - start);
    int next = openat(at, segment.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (next < 0) return -1;
    held.reset(next);
    at = next;
    start = slash + 1;
  }
  return openat(at, path.c_str() + start, flags, mode);
}

int open_once(int directory, const std::string& path, int flags, uint32_t mode) {
  if (!openat2_is_missing.load(std::memory_order_relaxed)) {
    int fd = open_beneath(directory, path.c_str(), flags, mode);
    // A container's filter may answer EPERM; "." asks for nothing that could be forbidden otherwise.
    if (fd >= 0 || (errno != ENOSYS && errno != EPERM)) return fd;
    int reason = errno;
    Fd probe(reason == ENOSYS ? -1 : open_beneath(directory, ".", O_PATH | O_DIRECTORY | O_CLOEXEC, 0));
    if (reason == EPERM && probe.valid()) {
      errno = EPERM;
      return -1;
    }
    openat2_is_missing.store(true, std::memory_order_relaxed);
  }
  return open_segment_by_segment(directory, path, flags, mode);
}

int64_t nanoseconds(const statx_timestamp& time) {
  return nanoseconds_of(time.tv_sec, time.tv_nsec);
}

constexpr unsigned kStatMask = STATX_BASIC_STATS;

EntryStat entry_stat(const struct statx& sx) {
  EntryStat stat;
  stat.type = S_ISREG(sx.stx_mode)   ? FileType::kFile
              : S_ISDIR(sx.stx_mode) ? FileType::kDirectory
              : S_ISLNK(sx.stx_mode) ? FileType::kSymlink
                                     : FileType::kOther;
  stat.mode = sx.stx_mode & 07777;
  stat.device = makedev(sx.stx_dev_major, sx.stx_dev_minor);
  stat.inode = sx.stx_ino;
  stat.size = sx.stx_size;
  stat.allocated_bytes = sx.stx_blocks * 512;
  stat.mtime_ns = nanoseconds(sx.stx_mtime);
  stat.ctime_ns = nanoseconds(sx.stx_ctime);
  stat.links = sx.stx_nlink;
  stat.uid = sx.stx_uid;
  stat.gid = sx.stx_gid;
  return stat;
}

}  // namespace

namespace tree_internal {

Error path_error(int err, const char* verb, const std::string& folder, std::string_view relative) {
  std::string what = std::string(verb) + " " + folder;
  if (!relative.empty()) what += "/" + std::string(relative);
  if (err == ELOOP || err == ENOTDIR || err == EXDEV || err == EISDIR) {
    return Error(Code::kPathTypeConflict, what + ": a link or an entry of another type is in the way");
  }
  return Error::from_errno(err, what);
}

Status check_relative(std::string_view relative) {
  if (is_relative_path(relative)) return ok();
  return Error(Code::kPathInvalid,
               "'" + std::string(relative.substr(0, 200)) +
                   "' is not a path inside a folder (empty, absolute, too long, or with '.' or '..')");
}

Result<Fd> open_path(int directory, std::string_view relative, int flags, uint32_t mode, const char* verb,
                     const std::string& folder) {
  CAIRN_CHECK_OK(check_relative(relative));
  Fd held;
  int at = directory;
  std::string_view rest = relative;
  while (rest.size() > kPiecePathBytes) {
    size_t slash = rest.rfind('/', kPiecePathBytes);
    CAIRN_CHECK(slash != std::string_view::npos);  // a segment is at most 255 bytes
    int next = open_once(at, std::string(rest.substr(0, slash)), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
    if (next < 0) return path_error(errno, verb, folder, relative);
    held.reset(next);
    at = next;
    rest.remove_prefix(slash + 1);
  }
  std::string last(rest);
  int fd = open_once(at, last, flags | O_NOFOLLOW | O_CLOEXEC, mode);
  if (fd < 0 && errno == EPERM && (flags & O_NOATIME)) {
    // Only the owner may read without leaving a trace.
    fd = open_once(at, last, (flags & ~O_NOATIME) | O_NOFOLLOW | O_CLOEXEC, mode);
  }
  if (fd < 0) return path_error(errno, verb, folder, relative);
  return Fd(fd);
}

Result<Parent> open_parent(int directory, std::string_view relative, const char* verb, const std::string& folder) {
  CAIRN_CHECK_OK(check_relative(relative));
  Parent parent;
  size_t slash = relative.rfind('/');
  if (slash == std::string_view::npos) {
    parent.fd = directory;
    parent.name = std::string(relative);
    return parent;
  }
  CAIRN_TRY(parent.held, open_path(directory, relative.substr(0, slash), O_PATH | O_DIRECTORY, 0, verb, folder));
  parent.fd = parent.held.get();
  parent.name = std::string(relative.substr(slash + 1));
  return parent;
}

Result<EntryStat> stat_at(int directory, const char* name, int flags, const char* verb, const std::string& folder) {
  struct statx sx;
  if (statx(directory, name, flags | AT_STATX_SYNC_AS_STAT, kStatMask, &sx) != 0) {
    return path_error(errno, verb, folder, name);
  }
  return entry_stat(sx);
}

}  // namespace tree_internal

using tree_internal::check_relative;
using tree_internal::open_parent;
using tree_internal::open_path;
using tree_internal::Parent;
using tree_internal::path_error;
using tree_internal::stat_at;

bool is_relative_path(std::string_view relative) {
  if (relative.empty() || relative.size() > limits::kPathBytesMax) return false;
  if (relative.find('\0') != std::string_view::npos) return false;
  size_t start = 0;
  while (start <= relative.size()) {
    size_t end = std::min(relative.find('/', start), relative.size());
    std::string_view segment = relative.substr(start, end - start);
    if (segment.empty() || segment.size() > limits::kSegmentBytesMax || segment == "." || segment == "..") return false;
    start = end + 1;
  }
  return true;
}

Result<EntryStat> stat_fd(int fd, std::string_view what) {
  return stat_at(fd, "", AT_EMPTY_PATH, "stat", std::string(what));
}

Result<std::vector<DataRange>> data_ranges(int fd, uint64_t file_size, size_t limit, std::string_view what) {
  std::vector<DataRange> ranges;
  uint64_t at = 0;
  while (at < file_size) {
    off_t data = lseek(fd, static_cast<off_t>(at), SEEK_DATA);
    if (data < 0 && errno == ENXIO) break;  // only a hole is left
    if (data < 0 && errno == EINVAL) {
      ranges.push_back({at, file_size - at});
      break;
    }
    if (data < 0) return Error::from_errno(errno, "find the data of " + std::string(what));
    off_t hole = lseek(fd, data, SEEK_HOLE);
    if (hole < 0) return Error::from_errno(errno, "find the holes of " + std::string(what));
    uint64_t begin = static_cast<uint64_t>(data);
    uint64_t end = std::min(static_cast<uint64_t>(hole), file_size);
    if (begin >= file_size || end <= begin) break;
    if (ranges.size() == limit) return Error(Code::kLimitExceeded, std::string(what) + " has too many holes");
    ranges.push_back({begin, end - begin});
    at = end;
  }
  return ranges;
}

Result<Directory> Directory::open(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return path_error(errno, "open folder", path, {});
  return Directory(std::move(fd), path);
}

Result<Directory> Directory::open_directory(std::string_view relative) const {
  CAIRN_TRY(Fd fd, open_path(fd_.get(), relative, O_RDONLY | O_DIRECTORY | O_NOATIME, 0, "open folder", shown_as_));
  return Directory(std::move(fd), shown_as_ + "/" + std::string(relative));
}

namespace {

Result<OpenFile> open_regular(int directory, std::string_view relative, int flags, const std::string& folder) {
  OpenFile file;
  CAIRN_TRY(file.fd, open_path(directory, relative, flags | O_NONBLOCK | O_NOCTTY, 0, "open", folder));
  CAIRN_TRY(file.stat, stat_fd(file.fd.get(), folder));
  if (file.stat.type != FileType::kFile) return path_error(ENOTDIR, "open", folder, relative);
  return file;
}

}  // namespace

Result<OpenFile> Directory::open_file(std::string_view relative) const {
  return open_regular(fd_.get(), relative, O_RDONLY | O_NOATIME, shown_as_);
}

Result<OpenFile> Directory::open_file_to_write(std::string_view relative) const {
  return open_regular(fd_.get(), relative, O_RDWR, shown_as_);
}

Result<EntryStat> Directory::stat(std::string_view relative) const {
  CAIRN_TRY(Parent parent, open_parent(fd_.get(), relative, "stat", shown_as_));
  return stat_at(parent.fd, parent.name.c_str(), AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, "stat", shown_as_);
}

Result<EntryStat> Directory::stat_self() const {
  return stat_fd(fd_.get(), shown_as_);
}

Result<std::string> Directory::read_link(std::string_view relative) const {
  CAIRN_TRY(Parent parent, open_parent(fd_.get(), relative, "read link", shown_as_));
  std::string target(limits::kSymlinkBytesMax + 1, '\0');
  ssize_t size = readlinkat(parent.fd, parent.name.c_str(), target.data(), target.size());
  if (size < 0) return path_error(errno == EINVAL ? ENOTDIR : errno, "read link", shown_as_, relative);
  target.resize(static_cast<size_t>(size));
  return target;
}

Status Directory::make_directory(std::string_view relative, uint32_t mode) const {
  CAIRN_TRY(Parent parent, open_parent(fd_.get(), relative, "make folder", shown_as_));
  if (mkdirat(parent.fd, parent.name.c_str(), 0700) != 0) return path_error(errno, "make folder", shown_as_, relative);
  if (mode == 0700) return ok();
  CAIRN_TRY(Fd fd, open_path(parent.fd, parent.name, O_RDONLY | O_DIRECTORY, 0, "open folder", shown_as_));
  if (fchmod(fd.get(), mode) != 0) return path_error(errno, "set the mode of", shown_as_, relative);
  return ok();
}

Result<Directory> Directory::make_directories(std::string_view relative, uint32_t mode) const {
  CAIRN_CHECK_OK(check_relative(relative));
  Directory at;
  size_t start = 0;
  while (start < relative.size()) {
    size_t end = std::min(relative.find('/', start), relative.size());
    std::string_view name = relative.substr(start, end - start);
    const Directory& here = start == 0 ? *this : at;
    Result<Directory> next = here.open_directory(name);
    if (!next && next.error().code() == Code::kFileNotFound) {
      Status made = here.make_directory(name, mode);
      if (!made && made.error().code() != Code::kFileExists) return made.error();
      next = here.open_directory(name);
    }
    if (!next) return next;
    at = *std::move(next);
    start = end + 1;
  }
  return at;
}

Result<Fd> Directory::create_file(std::string_view relative, uint32_t mode) const {
  CAIRN_TRY(Fd fd, open_path(fd_.get(), relative, O_RDWR | O_CREAT | O_EXCL, 0600, "create", shown_as_));
  if (mode != 0600 && fchmod(fd.get(), mode) != 0) return path_error(errno, "set the mode of", shown_as_, relative);
  return fd;
}

Status Directory::create_symlink(const std::string& target, std::string_view relative) const {
  CAIRN_TRY(Parent parent, open_parent(fd_.get(), relative, "make link", shown_as_));
  if (symlinkat(target.c_str(), parent.fd, parent.name.c_str()) != 0) {
    return path_error(errno, "make link", shown_as_, relative);
  }
  return ok();
}

Status Directory::link(std::string_view from, const Directory& to_directory, std::string_view to,
                       bool* too_many_links) const {
  if (too_many_links) *too_many_links = false;
  CAIRN_TRY(Parent source, open_parent(fd_.get(), from, "link", shown_as_));
  CAIRN_TRY(Parent target, open_parent(to_directory.fd_.get(), to, "link to", to_directory.shown_as_));
  if (linkat(source.fd, source.name.c_str(), target.fd, target.name.c_str(), 0) == 0) return ok();
  if (too_many_links) *too_many_links = errno == EMLINK;
  return path_error(errno, "link to", to_directory.shown_as_, to);
}

namespace {

struct RenameEnds {
  Parent source;
  Parent target;  // may use the source's descriptor
};

Result<RenameEnds> open_rename_ends(int from_directory, std::string_view from, const std::string& from_shown,
                                    int to_directory, std::string_view to, const std::string& to_shown) {
  RenameEnds ends;
  CAIRN_TRY(ends.source, open_parent(from_directory, from, "rename", from_shown));
  size_t from_slash = from.rfind('/');
  size_t to_slash = to.rfind('/');
  bool same_parent = from_directory == to_directory && from_slash != std::string_view::npos &&
                     from_slash == to_slash && from.substr(0, from_slash) == to.substr(0, to_slash);
  if (!same_parent) {
    CAIRN_TRY(ends.target, open_parent(to_directory, to, "rename to", to_shown));
    return ends;
  }
  CAIRN_CHECK_OK(check_relative(to));
  ends.target.fd = ends.source.fd;
  ends.target.name = std::string(to.substr(to_slash + 1));
  return ends;
}

Status rename_at(const Parent& source, const Parent& target, unsigned flags, const std::string& folder,
                 std::string_view to) {
  if (renameat2(source.fd, source.name.c_str(), target.fd, target.name.c_str(), flags) == 0) return ok();
  // EXDEV is the answer for another file system or a staged folder of an overlay, not a link in the way.
  if (errno == EXDEV) return Error::from_errno(EXDEV, "rename to " + folder + "/" + std::string(to));
  return path_error(errno, "rename to", folder, to);
}

}  // namespace

Status Directory::rename(std::string_view from, const Directory& to_directory, std::string_view to) const {
  CAIRN_TRY(RenameEnds ends,
            open_rename_ends(fd_.get(), from, shown_as_, to_directory.fd_.get(), to, to_directory.shown_as_));
  return rename_at(ends.source, ends.target, 0, to_directory.shown_as_, to);
}

Status Directory::rename_no_replace(std::string_view from, const Directory& to_directory, std::string_view to) const {
  CAIRN_TRY(RenameEnds ends,
            open_rename_ends(fd_.get(), from, shown_as_, to_directory.fd_.get(), to, to_directory.shown_as_));
  return rename_at(ends.source, ends.target, RENAME_NOREPLACE, to_directory.shown_as_, to);
}

Status Directory::remove(std::string_view relative) const {
  CAIRN_TRY(Parent parent, open_parent(fd_.get(), relative, "remove", shown_as_));
  if (unlinkat(parent.fd, parent.name.c_str(), 0) != 0) return path_error(errno, "remove", shown_as_, relative);
  return ok();
}

Status Directory::remove_directory(std::string_view relative) const {
  CAIRN_TRY(Parent parent, open_parent(fd_.get(), relative, "remove folder", shown_as_));
  if (unlinkat(parent.fd, parent.name.c_str(), AT_REMOVEDIR) != 0) {
    return path_error(errno, "remove folder", shown_as_, relative);
  }
  return ok();
}

Status Directory::set_mode(std::string_view relative, uint32_t mode) const {
  // fchmodat follows links: hold the entry itself, see that it is none, and change it through /proc.
  CAIRN_TRY(Fd fd, open_path(fd_.get(), relative, O_PATH, 0, "set the mode of", shown_as_));
  CAIRN_TRY(EntryStat found, stat_fd(fd.get(), shown_as_));
  if (found.type != FileType::kFile && found.type != FileType::kDirectory) {
    return path_error(ENOTDIR, "set the mode of", shown_as_, relative);
  }
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd.get());
  if (chmod(path, mode) != 0) return path_error(errno, "set the mode of", shown_as_, relative);
  return ok();
}

Status Directory::set_mtime(std::string_view relative, int64_t mtime_ns) const {
  CAIRN_TRY(Parent parent, open_parent(fd_.get(), relative, "set the time of", shown_as_));
  int64_t second = mtime_ns / 1'000'000'000;
  int64_t rest = mtime_ns % 1'000'000'000;
  if (rest < 0) {
    rest += 1'000'000'000;
    --second;
  }
  timespec times[2] = {{0, UTIME_OMIT}, {second, rest}};
  if (utimensat(parent.fd, parent.name.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0) {
    return path_error(errno, "set the time of", shown_as_, relative);
  }
  return ok();
}

Status Directory::sync() const {
  return sync_fd(fd_.get(), "folder " + shown_as_);
}

}  // namespace cairn::os
