#include "transfer/manifest.h"

#include <fcntl.h>
#include <unistd.h>

#include "os/file_system.h"
#include "store/paths.h"

namespace cairn::transfer {
namespace {

Status write_merged(EntrySource& old, EntrySource& changes, SpoolWriter& writer, const Deadline& deadline) {
  SpoolEntry before;
  SpoolEntry change;
  CAIRN_TRY(bool have_before, old.next(before));
  CAIRN_TRY(bool have_change, changes.next(change));
  while (have_before || have_change) {
    CAIRN_CHECK_OK(deadline.check());
    int order = !have_change ? -1 : !have_before ? 1 : store::path_compare(before.entry.path, change.entry.path);
    if (order < 0) {
      CAIRN_CHECK_OK(writer.add(before));
      CAIRN_CHECK_OK(copy_chunks(old, writer));
    } else if (change.action != Action::kDelete) {
      change.local.clear();
      change.same_metadata = false;
      CAIRN_CHECK_OK(writer.add(change));
      CAIRN_CHECK_OK(copy_chunks(changes, writer));
    }
    if (order >= 0) {
      CAIRN_TRY(have_change, changes.next(change));
    }
    if (order <= 0) {
      CAIRN_TRY(have_before, old.next(before));
    }
  }
  return writer.finish();
}

}  // namespace

Status advance_manifest(const std::string& file, int changes_fd, const Deadline& deadline) {
  std::string fresh = file + ".new";
  os::Fd fd(::open(fresh.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return Error::from_errno(errno, fresh);
  CAIRN_TRY(std::unique_ptr<SpoolReader> old, SpoolReader::open(file));
  SpoolReader changes(changes_fd);
  SpoolWriter writer(fd.get());
  CAIRN_CHECK_OK(write_merged(*old, changes, writer, deadline));
  CAIRN_CHECK_OK(os::sync_fd(fd.get(), fresh));
  CAIRN_CHECK_OK(os::posix_file_system().rename(fresh, file));
  return os::posix_file_system().sync_directory(os::parent_path(file));
}

}  // namespace cairn::transfer
