// The plain copy of a staged lower, for nodes where no overlay can be mounted.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "os/file_system.h"
#include "os/tree.h"
#include "store/paths.h"
#include "transfer/channel.h"
#include "transfer/entry_spool.h"
#include "transfer/folder_cache.h"
#include "transfer/stage.h"

namespace cairn::transfer {
namespace {

constexpr uint32_t kModeKept = 01777;

// Shares or copies the bytes in the kernel where it can.
Status copy_bytes(int from, int to, uint64_t size, const std::string& path) {
  uint64_t done = 0;
  while (done < size) {
    ssize_t copied = ::copy_file_range(from, nullptr, to, nullptr, size - done, 0);
    if (copied > 0) {
      done += static_cast<uint64_t>(copied);
      continue;
    }
    if (copied < 0 && errno == EINTR) continue;
    if (copied == 0 || (errno != EXDEV && errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP)) {
      return copied == 0 ? Status(Error(Code::kDataCorrupt, path + " is shorter than its manifest says"))
                         : Status(Error::from_errno(errno, path));
    }
    break;
  }
  std::vector<uint8_t> buffer(1 << 20);
  while (done < size) {
    CAIRN_TRY(size_t got, os::read_full_at(from, done, buffer, path));
    if (got == 0) return Error(Code::kDataCorrupt, path + " is shorter than its manifest says");
    CAIRN_CHECK_OK(os::write_all_at(to, done, {buffer.data(), got}, path));
    done += got;
  }
  return ok();
}

class LowerCopy {
 public:
  LowerCopy(const StagedLower& lower, unsigned jobs, Progress& progress, const Deadline& deadline)
      : lower_(lower), jobs_(std::max(1u, jobs)), progress_(progress), deadline_(deadline), work_(256), error_([this] { work_.abort(); }) {}

  Status run(const std::string& destination, const std::string& manifest_file) {
    CAIRN_TRY(from_, os::Directory::open(lower_.tree_dir));
    CAIRN_CHECK_OK(os::posix_file_system().make_directories(destination, 0755));
    CAIRN_TRY(to_, os::Directory::open(destination));
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < jobs_; ++i) threads.emplace_back([this] { copy_files(); });
    Status handed_out = hand_out();
    if (!handed_out) error_.report(handed_out.error());
    work_.close();
    for (std::thread& thread : threads) thread.join();
    CAIRN_CHECK_OK(error_.status());
    return finish(manifest_file);
  }

 private:
  Status hand_out() {
    CAIRN_TRY(std::unique_ptr<SpoolReader> manifest, SpoolReader::open(lower_.manifest_file));
    SpoolEntry entry;
    while (true) {
      CAIRN_CHECK_OK(deadline_.check());
      CAIRN_TRY(bool more, manifest->next(entry));
      if (!more) return ok();
      const std::string& path = entry.entry.path;
      std::string parent(store::parent_path(path));
      if (parent != last_parent_ && !parent.empty()) {
        CAIRN_TRY(os::Directory made, to_.make_directories(parent, 0755));
        last_parent_ = parent;
      }
      if (entry.entry.kind == store::EntryKind::kDirectory) {
        Status made = to_.make_directory(path, 0700);
        if (!made && made.error().code() != Code::kFileExists) return made;
      } else if (entry.entry.kind == store::EntryKind::kSymlink) {
        CAIRN_CHECK_OK(to_.create_symlink(entry.entry.target, path));
      } else if (!work_.push(entry)) {
        return ok();
      }
    }
  }

  void copy_files() {
    FolderCache from(from_);
    FolderCache to(to_);
    while (std::optional<SpoolEntry> entry = work_.pop()) {
      Status copied = copy_file(*entry, from, to);
      if (!copied) {
        error_.report(std::move(copied).error());
        return;
      }
      progress_.files_done.fetch_add(1);
      progress_.bytes_done.fetch_add(entry->entry.size);
    }
  }

  static Status copy_file(const SpoolEntry& entry, FolderCache& from, FolderCache& to) {
    const std::string& path = entry.entry.path;
    std::string_view name = store::base_name(path);
    CAIRN_TRY(const os::Directory* source_folder, from.parent_of(path));
    CAIRN_TRY(os::OpenFile source, source_folder->open_file(name));
    CAIRN_TRY(const os::Directory* folder, to.parent_of(path));
    CAIRN_TRY(os::Fd target, folder->create_file(name, 0600));
    CAIRN_CHECK_OK(copy_bytes(source.fd.get(), target.get(), entry.entry.size, path));
    if (::fchmod(target.get(), entry.entry.mode & kModeKept) != 0) return Error::from_errno(errno, path);
    CAIRN_CHECK_OK(folder->set_mtime(name, entry.entry.mtime_ns));
    return os::close_fd(std::move(target), path);
  }

  // Times of folders and links, and a manifest of what stands there now.
  Status finish(const std::string& manifest_file) {
    CAIRN_TRY(std::unique_ptr<SpoolReader> manifest, SpoolReader::open(lower_.manifest_file));
    os::Fd file(::open(manifest_file.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file.valid()) return Error::from_errno(errno, manifest_file);
    SpoolWriter writer(file.get());
    FolderCache folders(to_);
    SpoolEntry entry;
    while (true) {
      CAIRN_CHECK_OK(deadline_.check());
      CAIRN_TRY(bool more, manifest->next(entry));
      if (!more) break;
      CAIRN_TRY(const os::Directory* folder, folders.parent_of(entry.entry.path));
      std::string_view name = store::base_name(entry.entry.path);
      if (entry.entry.kind == store::EntryKind::kDirectory) {
        CAIRN_CHECK_OK(folder->set_mode(name, entry.entry.mode & kModeKept));
      }
      if (entry.entry.kind != store::EntryKind::kFile) CAIRN_CHECK_OK(folder->set_mtime(name, entry.entry.mtime_ns));
      CAIRN_TRY(os::EntryStat stat, folder->stat(name));
      entry.identity = FileIdentity{stat.device, stat.inode, stat.size, stat.mtime_ns, stat.ctime_ns};
      entry.entry.mtime_ns = stat.mtime_ns;  // a time that this file system cannot hold is no change
      CAIRN_CHECK_OK(writer.add(entry));
      CAIRN_CHECK_OK(copy_chunks(*manifest, writer));
    }
    CAIRN_CHECK_OK(writer.finish());
    return os::sync_fd(file.get(), manifest_file);
  }

  const StagedLower& lower_;
  const unsigned jobs_;
  Progress& progress_;
  const Deadline& deadline_;
  os::Directory from_;
  os::Directory to_;
  std::string last_parent_;
  Channel<SpoolEntry> work_;
  FirstError error_;
};

}  // namespace

Status copy_lower(const StagedLower& lower, const std::string& destination, const std::string& manifest_file, unsigned jobs,
                  Progress& progress, const Deadline& deadline) {
  return LowerCopy(lower, jobs, progress, deadline).run(destination, manifest_file);
}

}  // namespace cairn::transfer
