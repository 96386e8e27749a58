#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "os/file_system.h"
#include "os/timestamp.h"

namespace cairn::os {
namespace {

// Keeps the first error: whatever is asked of the file after it gets the same answer.
class PosixWritableFile final : public WritableFile {
 public:
  PosixWritableFile(Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  Status write(ByteView data) override {
    return once([&] { return write_all(fd_.get(), data, path_); });
  }
  Status sync() override {
    return once([&] { return sync_fd(fd_.get(), path_); });
  }
  Status close() override {
    return once([&] { return close_fd(std::move(fd_), path_); });
  }

 private:
  template <class Call>
  Status once(Call call) {
    if (first_error_) return *first_error_;
    Status status = call();
    if (!status) first_error_ = std::make_unique<Error>(status.error());
    return status;
  }

  Fd fd_;
  std::string path_;
  std::unique_ptr<Error> first_error_;
};

class PosixReadableFile final : public ReadableFile {
 public:
  PosixReadableFile(Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  Result<size_t> read_at(uint64_t offset, std::span<uint8_t> out) override {
    return read_full_at(fd_.get(), offset, out, path_);
  }
  Result<uint64_t> size() override {
    struct stat st;
    if (fstat(fd_.get(), &st) != 0) return Error::from_errno(errno, "stat " + path_);
    return static_cast<uint64_t>(st.st_size);
  }
  int native_fd() const override { return fd_.get(); }

 private:
  Fd fd_;
  std::string path_;
};

FileType type_of(mode_t mode) {
  if (S_ISREG(mode)) return FileType::kFile;
  if (S_ISDIR(mode)) return FileType::kDirectory;
  if (S_ISLNK(mode)) return FileType::kSymlink;
  return FileType::kOther;
}

Status check(int result, const std::string& what) {
  if (result != 0) return Error::from_errno(errno, what);
  return ok();
}

// A directory counts as its name with a '/' at the end.
std::string sort_key(const DirectoryEntry& entry) {
  return entry.type == FileType::kDirectory ? entry.name + "/" : entry.name;
}

// Keeps the `limit` smallest in a heap with the largest on top.
class SmallestEntries {
 public:
  explicit SmallestEntries(size_t limit) : limit_(limit) {}

  void add(DirectoryEntry entry) {
    Item item{sort_key(entry), std::move(entry)};
    if (items_.size() == limit_) {
      if (limit_ == 0 || item.key >= items_.front().key) return;
      std::pop_heap(items_.begin(), items_.end(), less);
      items_.pop_back();
    }
    items_.push_back(std::move(item));
    std::push_heap(items_.begin(), items_.end(), less);
  }
  std::vector<DirectoryEntry> take() {
    std::sort_heap(items_.begin(), items_.end(), less);
    std::vector<DirectoryEntry> entries;
    entries.reserve(items_.size());
    for (Item& item : items_) entries.push_back(std::move(item.entry));
    return entries;
  }

 private:
  struct Item {
    std::string key;
    DirectoryEntry entry;
  };
  static bool less(const Item& a, const Item& b) { return a.key < b.key; }
  size_t limit_;
  std::vector<Item> items_;
};

class PosixFileSystem final : public FileSystem {
 public:
  Result<std::unique_ptr<WritableFile>> create_exclusive(const std::string& path, uint32_t mode) override {
    return open_to_write(path, O_CREAT | O_EXCL, mode);
  }
  Result<std::unique_ptr<WritableFile>> open_append(const std::string& path, uint32_t mode) override {
    return open_to_write(path, O_CREAT | O_APPEND, mode);
  }

  Result<std::unique_ptr<ReadableFile>> open_read(const std::string& path) override {
    Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!fd.valid()) return Error::from_errno(errno, "open " + path);
    struct stat st;
    if (fstat(fd.get(), &st) != 0) return Error::from_errno(errno, "stat " + path);
    if (!S_ISREG(st.st_mode)) return Error(Code::kPathTypeConflict, path + (S_ISDIR(st.st_mode) ? " is a folder, not a file" : " is not a regular file"));
    return std::unique_ptr<ReadableFile>(std::make_unique<PosixReadableFile>(std::move(fd), path));
  }

  Status link_no_replace(const std::string& from, const std::string& to) override {
    return check(::link(from.c_str(), to.c_str()), "link " + from + " to " + to);
  }
  Status rename(const std::string& from, const std::string& to) override {
    return check(::rename(from.c_str(), to.c_str()), "rename " + from + " to " + to);
  }
  Status remove(const std::string& path) override { return check(::unlink(path.c_str()), "remove " + path); }
  Status remove_directory(const std::string& path) override {
    return check(::rmdir(path.c_str()), "remove folder " + path);
  }
  Status make_directory(const std::string& path, uint32_t mode) override {
    return check(::mkdir(path.c_str(), mode), "make folder " + path);
  }

  Status sync_directory(const std::string& path) override {
    Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd.valid()) return Error::from_errno(errno, "open folder " + path);
    return sync_fd(fd.get(), "folder " + path);
  }

  Result<FileStat> stat(const std::string& path) override {
    struct stat st;
    if (::lstat(path.c_str(), &st) != 0) return Error::from_errno(errno, "stat " + path);
    FileStat result;
    result.type = type_of(st.st_mode);
    result.size = static_cast<uint64_t>(st.st_size);
    result.mode = st.st_mode & 07777;
    result.mtime_ns = nanoseconds_of(st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
    return result;
  }

  Result<std::vector<DirectoryEntry>> list(const std::string& path, const std::string& after, size_t limit) override {
    std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), ::closedir);
    if (!folder) return Error::from_errno(errno, "list " + path);
    SmallestEntries smallest(limit);
    for (;;) {
      errno = 0;
      dirent* found = ::readdir(folder.get());
      if (!found) break;
      std::string name = found->d_name;
      if (name == "." || name == "..") continue;
      DirectoryEntry entry;
      entry.name = std::move(name);
      entry.type = type_of(DTTOIF(found->d_type));
      if (found->d_type == DT_UNKNOWN) {
        struct stat st;
        if (fstatat(dirfd(folder.get()), found->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) continue;  // gone meanwhile
        entry.type = type_of(st.st_mode);
      }
      if (sort_key(entry) > after) smallest.add(std::move(entry));
    }
    if (errno != 0) return Error::from_errno(errno, "list " + path);
    return smallest.take();
  }

 private:
  Result<std::unique_ptr<WritableFile>> open_to_write(const std::string& path, int flags, uint32_t mode) {
    Fd fd(::open(path.c_str(), flags | O_WRONLY | O_CLOEXEC, mode));
    if (!fd.valid()) return Error::from_errno(errno, "create " + path);
    return std::unique_ptr<WritableFile>(std::make_unique<PosixWritableFile>(std::move(fd), path));
  }
};

}  // namespace

FileSystem& posix_file_system() {
  static PosixFileSystem file_system;
  return file_system;
}

}  // namespace cairn::os
