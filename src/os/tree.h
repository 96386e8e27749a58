// Walking and writing inside a folder that somebody hostile may be changing at the same time (RULES S8). A Directory is a held
// descriptor; everything is named relative to it and resolved by openat2 with RESOLVE_BENEATH | NO_SYMLINKS | NO_MAGICLINKS (by
// one O_NOFOLLOW open a segment on kernels without it), so no link, "..", swapped folder or /proc magic leads out of it. Files
// are opened O_NONBLOCK and checked to be regular, so that a pipe or a device never blocks the caller.
//
// Relative paths are bytes: segments of 1 to 255 bytes joined by '/', none of them "." or "..", at most 4,096 bytes (longer than
// one system call takes: they are resolved in pieces). path_invalid otherwise. A link or a non-folder in the middle of a path, or
// an entry of another type than asked for, is path_type_conflict; an absent one file_not_found. Names are returned as they are.
//
// A Directory may be used from several threads at once, except list*, which share the descriptor's read position.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "os/fd.h"
#include "os/file_system.h"

namespace cairn::os {

struct EntryStat {
  FileType type = FileType::kOther;
  uint32_t mode = 0;  // permission bits with setuid, setgid and sticky
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t size = 0;
  uint64_t allocated_bytes = 0;
  int64_t mtime_ns = 0;
  int64_t ctime_ns = 0;
  uint32_t links = 0;
  uint32_t uid = 0;
  uint32_t gid = 0;

  // Same file, and nothing says that its bytes changed: device, inode, type, size, mtime and ctime.
  bool same_content_as(const EntryStat& other) const {
    return device == other.device && inode == other.inode && type == other.type && size == other.size &&
           mtime_ns == other.mtime_ns && ctime_ns == other.ctime_ns;
  }
};

struct TreeEntry {
  std::string name;
  EntryStat stat;
};

struct OpenFile {
  Fd fd;
  EntryStat stat;  // of the open descriptor
};

// More names than this in one folder is limit_exceeded unless the caller says otherwise.
inline constexpr size_t kNamesPerFolderMax = 10'000'000;

class Directory {
 public:
  Directory() = default;
  // The trusted way in: `path` is followed as the kernel does.
  static Result<Directory> open(const std::string& path);
  // REQUIRES: a directory's descriptor. `shown_as` names it in errors.
  static Directory from_fd(Fd fd, std::string shown_as) { return Directory(std::move(fd), std::move(shown_as)); }

  bool valid() const { return fd_.valid(); }
  int fd() const { return fd_.get(); }
  const std::string& shown_as() const { return shown_as_; }

  // Reading.
  Result<Directory> open_directory(std::string_view relative) const;
  // A regular file to read, not following links.
  Result<OpenFile> open_file(std::string_view relative) const;
  Result<EntryStat> stat(std::string_view relative) const;
  Result<EntryStat> stat_self() const;
  Result<std::string> read_link(std::string_view relative) const;
  // The names in this folder without "." and "..", sorted by bytes; limit_exceeded when there are more than `limit`.
  Result<std::vector<std::string>> list_names(size_t limit = kNamesPerFolderMax) const;
  // The same with a stat of each; an entry that vanished in between is left out.
  Result<std::vector<TreeEntry>> list(size_t limit = kNamesPerFolderMax) const;

  // Writing. `mode` is set exactly, whatever the umask.
  // file_exists when the name is taken.
  Status make_directory(std::string_view relative, uint32_t mode) const;
  // Every missing level, with `mode`; the last one is returned. An existing one is left as it is.
  Result<Directory> make_directories(std::string_view relative, uint32_t mode) const;
  // A new regular file open for reading and writing; file_exists when the name is taken (by a link, too).
  Result<Fd> create_file(std::string_view relative, uint32_t mode) const;
  // An existing regular file open for reading and writing.
  Result<OpenFile> open_file_to_write(std::string_view relative) const;
  Status create_symlink(const std::string& target, std::string_view relative) const;
  // A second name for a regular file (not through links); file_exists when taken. `too_many_links` is set, where given, when the
  // file system allows no further name (EMLINK).
  Status link(std::string_view from, const Directory& to_directory, std::string_view to, bool* too_many_links = nullptr) const;
  // Replaces a file or an empty folder at `to`.
  Status rename(std::string_view from, const Directory& to_directory, std::string_view to) const;
  // file_exists when `to` is taken.
  Status rename_no_replace(std::string_view from, const Directory& to_directory, std::string_view to) const;
  // A file, link, pipe or device.
  Status remove(std::string_view relative) const;
  // An empty folder.
  Status remove_directory(std::string_view relative) const;
  // Whatever is there with all beneath it, to any depth and with bounded memory, never following a link and never entering
  // another file system; ok when absent. Folders without permission bits are opened up first where allowed.
  Status remove_tree(std::string_view relative) const;
  Status set_mode(std::string_view relative, uint32_t mode) const;
  // Of a file, folder or link itself.
  Status set_mtime(std::string_view relative, int64_t mtime_ns) const;
  Status sync() const;

 private:
  Directory(Fd fd, std::string shown_as) : fd_(std::move(fd)), shown_as_(std::move(shown_as)) {}

  Fd fd_;
  std::string shown_as_;
};

// The stat of an open descriptor.
Result<EntryStat> stat_fd(int fd, std::string_view what);
// The ranges of `fd` that hold data (SEEK_DATA/SEEK_HOLE), at most `limit`; a file system without holes gives one.
struct DataRange {
  uint64_t offset = 0;
  uint64_t size = 0;
};
Result<std::vector<DataRange>> data_ranges(int fd, uint64_t file_size, size_t limit, std::string_view what);
// Whether `relative` is a path as above.
bool is_relative_path(std::string_view relative);

}  // namespace cairn::os
