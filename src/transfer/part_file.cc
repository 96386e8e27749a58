#include "transfer/part_file.h"

#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/ids.h"
#include "base/random.h"
#include "codec/digest.h"
#include "store/paths.h"

namespace cairn::transfer {
namespace {

std::string part_name(const std::string& relative, const std::string& more) {
  std::string hash = codec::sha256(codec::as_bytes(relative)).hex().substr(0, 20);
  return store::join_path(store::parent_path(relative), ".cairn-" + hash + more + ".part");
}

bool same_file(const os::EntryStat& a, const os::EntryStat& b) { return a.device == b.device && a.inode == b.inode; }

}  // namespace

std::string own_part_name(const std::string& relative) {
  return part_name(relative, "-" + RequestId::random(system_random()).hex().substr(0, 12));
}

PartFile::PartFile(const os::Directory& root, std::string relative, bool in_place)
    : root_(root),
      relative_(std::move(relative)),
      in_place_(in_place),
      name_(in_place ? relative_ : part_name(relative_, std::string())) {}

// Whether the name still leads to the open file.
Result<bool> PartFile::is_named() const {
  CAIRN_TRY(os::EntryStat ours, os::stat_fd(fd_.get(), relative_));
  auto named = root_.stat(name_);
  if (!named && named.error().code() != Code::kFileNotFound) return std::move(named).error();
  return named && same_file(*named, ours);
}

// Keeps `file` open if it can be locked and has still its name: who held it before may have finished and renamed it meanwhile.
Result<bool> PartFile::lock(os::Fd file) {
  // A file system without locks goes on without.
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
  fd_ = std::move(file);
  auto named = is_named();
  if (!named || !*named) fd_.reset();
  return named;
}

Result<bool> PartFile::open_left_over(uint64_t size) {
  auto file = root_.open_file_to_write(name_);
  if (!file || file->stat.size != size || file->stat.uid != ::geteuid() || file->stat.links != 1) return false;
  return lock(std::move(file->fd));
}

// Makes the file of the common name, or takes over and empties what a former try left; false when it belongs to somebody else.
Result<bool> PartFile::claim() {
  constexpr int kTries = 10;
  for (int tries = 0; tries < kTries; ++tries) {
    auto created = root_.create_file(name_, 0600);
    if (created) {
      CAIRN_TRY(bool locked, lock(std::move(*created)));
      if (locked) return true;
      continue;
    }
    if (created.error().code() != Code::kFileExists) return std::move(created).error();
    auto file = root_.open_file_to_write(name_);
    if (!file && file.error().code() == Code::kFileNotFound) continue;
    if (!file || file->stat.uid != ::geteuid() || file->stat.links != 1) return false;
    CAIRN_TRY(bool locked, lock(std::move(file->fd)));
    if (!locked) continue;
    if (::ftruncate(fd_.get(), 0) != 0) return Error::from_errno(errno, relative_);
    return true;
  }
  return false;
}

Status PartFile::open() {
  if (fd_.valid()) return ok();
  if (!in_place_) {
    CAIRN_TRY(bool claimed, claim());
    if (claimed) return ok();
    own_name_ = true;
    name_ = own_part_name(relative_);
  }
  CAIRN_TRY(fd_, root_.create_file(name_, 0600));
  return ok();
}

Status PartFile::install() const {
  if (in_place_) return ok();
  CAIRN_TRY(bool named, is_named());
  if (!named) {
    return Error(Code::kFileChanged, "the unfinished '" + store::escape_for_display(relative_) + "' was removed or replaced while it was written",
                 "type the same command again");
  }
  return root_.rename(name_, root_, relative_);
}

void PartFile::drop() {
  // Removed before the lock goes: afterwards it may be somebody else's.
  if (auto named = is_named(); named && *named) (void)root_.remove(name_).has_value();
  fd_.reset();
}

}  // namespace cairn::transfer
