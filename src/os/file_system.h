// The seam to files that Cairn itself owns: journals, the directory store, caches of settings. PosixFileSystem is the machine's;
// MemoryFileSystem (memory_file_system.h) remembers what was synced and loses the rest when told to crash. What a run or a user
// can change while Cairn looks at it goes through os/tree.h instead.
//
// What is durable: a file's bytes after WritableFile::sync, a name in a folder after sync_directory of that folder. Paths are
// bytes. FileSystem and ReadableFile are thread-safe, a WritableFile belongs to one thread. A WritableFile that failed once
// fails for ever with the first error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "os/fd.h"

namespace cairn::os {

enum class FileType { kFile, kDirectory, kSymlink, kOther };

struct FileStat {
  FileType type = FileType::kFile;
  uint64_t size = 0;
  uint32_t mode = 0;  // permission bits only
  int64_t mtime_ns = 0;
};

struct DirectoryEntry {
  std::string name;
  FileType type = FileType::kFile;
};

class WritableFile {
 public:
  virtual ~WritableFile() = default;  // closes; errors are lost
  virtual Status write(ByteView data) = 0;
  // What was written is on stable storage when this returns ok.
  virtual Status sync() = 0;
  virtual Status close() = 0;
};

class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  // Fills `out` from `offset`; returns less only at the end of the file.
  virtual Result<size_t> read_at(uint64_t offset, std::span<uint8_t> out) = 0;
  virtual Result<uint64_t> size() = 0;
  // For sendfile; -1 where there is none. Valid as long as this object.
  virtual int native_fd() const { return -1; }
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // A new file to write; file_exists when the name is taken.
  virtual Result<std::unique_ptr<WritableFile>> create_exclusive(const std::string& path, uint32_t mode) = 0;
  // Opens (creating it when absent) to write after the present end.
  virtual Result<std::unique_ptr<WritableFile>> open_append(const std::string& path, uint32_t mode) = 0;
  // file_not_found when absent; io_error when it is not a regular file.
  virtual Result<std::unique_ptr<ReadableFile>> open_read(const std::string& path) = 0;

  // A second name for the same file; file_exists when `to` is taken, never replaced.
  virtual Status link_no_replace(const std::string& from, const std::string& to) = 0;
  // Replaces `to`.
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  // A file or link; file_not_found when absent.
  virtual Status remove(const std::string& path) = 0;
  virtual Status remove_directory(const std::string& path) = 0;
  // One level; file_exists when the name is taken.
  virtual Status make_directory(const std::string& path, uint32_t mode) = 0;
  // Names added to and removed from this folder are durable when this returns ok.
  virtual Status sync_directory(const std::string& path) = 0;
  // Does not follow a link at the end.
  virtual Result<FileStat> stat(const std::string& path) = 0;
  // The first `limit` entries after `after`, in byte order of their names, where a directory counts as its name with a '/' at the
  // end (the order of the paths below). Memory is bounded by `limit`.
  virtual Result<std::vector<DirectoryEntry>> list(const std::string& path, const std::string& after = {},
                                                   size_t limit = SIZE_MAX) = 0;

  // Made of the above, the same everywhere.

  // file_not_found when absent; limit_exceeded when larger than `max_bytes`.
  Result<std::string> read_file(const std::string& path, size_t max_bytes);
  // The file holds the old or the new bytes whatever happens, and the new ones durably once this returns ok: temporary file
  // beside it, sync, rename, sync of the folder. One writer at a time per path.
  Status write_file_atomic(const std::string& path, ByteView data, uint32_t mode);
  // All missing levels, each made durable in its parent.
  Status make_directories(const std::string& path, uint32_t mode);
  Result<bool> exists(const std::string& path);
};

// The machine's file system.
FileSystem& posix_file_system();

// "/a/b" of "/a/b/c"; "." of "c"; "/" of "/c".
std::string parent_path(const std::string& path);

}  // namespace cairn::os
