#include "transfer/lower_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "codec/bytes.h"
#include "codec/crc32c.h"
#include "codec/digest.h"
#include "os/file_system.h"

namespace cairn::transfer {
namespace {

constexpr std::string_view kMarkerMagic = "CLM1";
constexpr std::string_view kPart = ".part";
constexpr std::string_view kGone = ".gone";

bool is_root(std::string_view name) { return codec::Digest::from_hex(name).has_value(); }

}  // namespace

Status LowerStore::prepare() const {
  for (const char* folder : {"/lowers", "/locks", "/keep"}) {
    CAIRN_CHECK_OK(os::posix_file_system().make_directories(dir_ + folder, 0700));
  }
  return ok();
}

std::optional<LowerMarker> LowerStore::marker(const std::string& root) const {
  std::string path = lower_dir(root) + "/staged";
  auto stat = os::posix_file_system().stat(path);
  auto text = os::posix_file_system().read_file(path, 4096);
  if (!stat || !text || text->size() < 4) return std::nullopt;
  codec::ByteView all = codec::as_bytes(*text);
  codec::ByteReader tail(all.subspan(all.size() - 4));
  if (tail.u32() != codec::crc32c(all.first(all.size() - 4))) return std::nullopt;
  codec::ByteReader reader(all.first(all.size() - 4));
  LowerMarker marker;
  reader.expect(kMarkerMagic);
  marker.volume = codec::as_text(reader.prefixed(1024));
  marker.snapshot = reader.varint();
  marker.files = reader.varint();
  marker.bytes = reader.varint();
  if (!reader.finished()) return std::nullopt;
  marker.used_ns = stat->mtime_ns;
  return marker;
}

Status LowerStore::write_marker(const std::string& folder, const LowerMarker& marker) const {
  codec::Bytes bytes;
  codec::ByteWriter writer(bytes);
  writer.bytes(kMarkerMagic);
  writer.prefixed(marker.volume);
  writer.varint(marker.snapshot);
  writer.varint(marker.files);
  writer.varint(marker.bytes);
  writer.u32(codec::crc32c(bytes));
  return os::posix_file_system().write_file_atomic(folder + "/staged", bytes, 0600);
}

void LowerStore::touch(const std::string& root) const {
  (void)::utimensat(AT_FDCWD, (lower_dir(root) + "/staged").c_str(), nullptr, 0);
}

Result<std::vector<std::string>> LowerStore::roots() const {
  CAIRN_TRY(os::Directory lowers, os::Directory::open(dir_ + "/lowers"));
  CAIRN_TRY(std::vector<std::string> names, lowers.list_names());
  std::erase_if(names, [&](const std::string& name) { return !is_root(name) || !marker(name); });
  return names;
}

Status LowerStore::remove(const std::string& name) const {
  CAIRN_TRY(os::Directory lowers, os::Directory::open(dir_ + "/lowers"));
  if (!lowers.stat(name)) return ok();
  // Out of the way first: a lower half removed must not look staged.
  std::string gone = name + std::string(kGone);
  CAIRN_CHECK_OK(lowers.remove_tree(gone));
  CAIRN_CHECK_OK(lowers.rename(name, lowers, gone));
  return lowers.remove_tree(gone);
}

Status LowerStore::install(const std::string& root) const {
  CAIRN_TRY(os::Directory lowers, os::Directory::open(dir_ + "/lowers"));
  CAIRN_CHECK_OK(remove(root));
  CAIRN_CHECK_OK(lowers.rename(root + std::string(kPart), lowers, root));
  return lowers.sync();
}

Status LowerStore::remove_left_overs(const std::string& except_root) const {
  CAIRN_TRY(os::Directory lowers, os::Directory::open(dir_ + "/lowers"));
  CAIRN_TRY(std::vector<std::string> names, lowers.list_names());
  for (const std::string& name : names) {
    std::string root = name.substr(0, 64);
    if (root == except_root || !is_root(root) || (is_root(name) && marker(name))) continue;
    CAIRN_TRY(os::Fd held, lock(root, true, false, Deadline::never()));
    if (!held.valid()) continue;
    CAIRN_CHECK_OK(lowers.remove_tree(name));
  }
  return ok();
}

Result<os::Fd> LowerStore::lock(const std::string& root, bool exclusive, bool wait, const Deadline& deadline) const {
  std::string path = dir_ + "/locks/" + root + ".lock";
  os::Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.valid()) return Error::from_errno(errno, path);
  int how = (exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB;
  while (::flock(fd.get(), how) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return Error::from_errno(errno, path);
    if (!wait) return os::Fd();
    if (deadline.token().cancelled()) return Error(Code::kCancelled, "cancelled");
    if (deadline.expired()) {
      return Error(Code::kBusy, "another process stages, checks or removes snapshot tree " + root + " in this node's cache",
                   "try again when it is done");
    }
    system_clock().sleep_for(milliseconds(20));
  }
  return fd;
}

Status LowerStore::keep(const std::string& root, const std::string& holder) const {
  std::string folder = dir_ + "/keep/" + root;
  CAIRN_CHECK_OK(os::posix_file_system().make_directories(folder, 0700));
  return os::posix_file_system().write_file_atomic(folder + "/" + holder, {}, 0600);
}

Status LowerStore::release(const std::string& root, const std::string& holder) const {
  std::string folder = dir_ + "/keep/" + root;
  Status removed = os::posix_file_system().remove(folder + "/" + holder);
  if (!removed && removed.error().code() != Code::kFileNotFound) return removed;
  (void)os::posix_file_system().remove_directory(folder).has_value();
  return ok();
}

bool LowerStore::is_kept(const std::string& root) const {
  auto held = os::posix_file_system().list(dir_ + "/keep/" + root, {}, 1);
  return held && !held->empty();
}

}  // namespace cairn::transfer
