#include "transfer/lower_check.h"

#include <fcntl.h>

#include <memory>
#include <vector>

#include "base/ids.h"
#include "base/limits.h"
#include "base/random.h"
#include "codec/digest.h"
#include "os/file_system.h"
#include "store/paths.h"
#include "transfer/entry_spool.h"
#include "transfer/folder_cache.h"

namespace cairn::transfer {
namespace {

enum class Sight { kSame, kOtherCtime, kOther };

Error changed(const std::string& path) {
  return Error(Code::kDataCorrupt, "'" + store::escape_for_display(path) + "' was changed in the node cache");
}

Sight look(const SpoolEntry& entry, const os::EntryStat& stat) {
  const FileIdentity& known = entry.identity;
  if (stat.inode != known.inode || stat.mtime_ns != known.mtime_ns) return Sight::kOther;
  if (entry.entry.kind != store::EntryKind::kFile) return Sight::kSame;
  if (stat.size != known.size) return Sight::kOther;
  // Each link that another staging makes changes ctime: it counts only for files with one name.
  return stat.links > 1 || stat.ctime_ns == known.ctime_ns ? Sight::kSame : Sight::kOtherCtime;
}

// Copies the entry's chunks and compares the file's bytes with them.
Status copy_compared(const std::string& path, int fd, EntrySource& manifest, SpoolWriter& renewed, const Deadline& deadline) {
  std::vector<uint8_t> bytes;
  uint64_t offset = 0;
  while (true) {
    CAIRN_TRY(std::span<const store::ChunkRef> chunks, manifest.next_chunks());
    if (chunks.empty()) return ok();
    for (const store::ChunkRef& chunk : chunks) {
      CAIRN_CHECK_OK(deadline.check());
      if (chunk.raw_len > limits::kChunkBytesMax) return changed(path);
      bytes.resize(chunk.raw_len);
      CAIRN_TRY(size_t got, os::read_full_at(fd, offset, bytes, path));
      if (got != bytes.size() || codec::sha256(bytes) != chunk.hash) return changed(path);
      offset += got;
    }
    CAIRN_CHECK_OK(renewed.add_chunks(chunks));
  }
}

Status renew(EntrySource& manifest, const os::Directory& tree, SpoolWriter& renewed, const Deadline& deadline) {
  FolderCache folders(tree);
  return each_entry(manifest, deadline, [&](SpoolEntry& entry) -> Status {
    const std::string& path = entry.entry.path;
    CAIRN_TRY(const os::Directory* folder, folders.parent_of(path));
    CAIRN_TRY(os::EntryStat stat, folder->stat(store::base_name(path)));
    switch (look(entry, stat)) {
      case Sight::kOther: return changed(path);
      case Sight::kSame:
        CAIRN_CHECK_OK(renewed.add(entry));
        return copy_chunks(manifest, renewed);
      case Sight::kOtherCtime: break;
    }
    CAIRN_TRY(os::OpenFile file, folder->open_file(store::base_name(path)));
    if (look(entry, file.stat) == Sight::kOther) return changed(path);
    entry.identity.ctime_ns = file.stat.ctime_ns;
    CAIRN_CHECK_OK(renewed.add(entry));
    return copy_compared(path, file.fd.get(), manifest, renewed, deadline);
  });
}

// Several may do so at once under the shared lock: each writes a file of its own, and all write the same.
Status renew_manifest(const std::string& path, const os::Directory& tree, const Deadline& deadline) {
  std::string fresh = path + "." + RequestId::random(system_random()).hex();
  os::Fd file(::open(fresh.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.valid()) return Error::from_errno(errno, fresh);
  Status renewed = [&]() -> Status {
    CAIRN_TRY(std::unique_ptr<SpoolReader> manifest, SpoolReader::open(path));
    SpoolWriter writer(file.get());
    CAIRN_CHECK_OK(renew(*manifest, tree, writer, deadline));
    CAIRN_CHECK_OK(writer.finish());
    CAIRN_CHECK_OK(os::sync_fd(file.get(), fresh));
    return os::posix_file_system().rename(fresh, path);
  }();
  if (!renewed) (void)os::posix_file_system().remove(fresh).has_value();
  return renewed;
}

}  // namespace

Status check_lower(const LowerStore& lowers, const std::string& root, const Deadline& deadline) {
  CAIRN_TRY(std::unique_ptr<SpoolReader> manifest, SpoolReader::open(lowers.manifest_file(root)));
  CAIRN_TRY(os::Directory tree, os::Directory::open(lowers.tree_dir(root)));
  FolderCache folders(tree);
  bool other_ctimes = false;
  CAIRN_CHECK_OK(each_entry(*manifest, deadline, [&](SpoolEntry& entry) -> Status {
    const std::string& path = entry.entry.path;
    CAIRN_TRY(const os::Directory* folder, folders.parent_of(path));
    CAIRN_TRY(os::EntryStat stat, folder->stat(store::base_name(path)));
    Sight sight = look(entry, stat);
    other_ctimes = other_ctimes || sight == Sight::kOtherCtime;
    return sight == Sight::kOther ? Status(changed(path)) : ok();
  }));
  return other_ctimes ? renew_manifest(lowers.manifest_file(root), tree, deadline) : ok();
}

}  // namespace cairn::transfer
