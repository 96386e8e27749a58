#include "transfer/journal.h"

#include <cstdlib>

#include "codec/bytes.h"
#include "codec/crc32c.h"
#include "codec/digest.h"
#include "os/file_system.h"
#include "os/host.h"

#include <unistd.h>

namespace cairn::transfer {
namespace {

constexpr std::string_view kMagic = "CJN2";
constexpr size_t kSecretBytesMax = 1024;
constexpr size_t kScopeBytesMax = 4096;
constexpr size_t kFileBytesMax = 8192;
constexpr size_t kJournalsMax = 10'000;

std::string default_dir(const char* variable, const char* below_home) {
  if (const char* value = std::getenv(variable); value != nullptr && value[0] == '/') return std::string(value) + "/cairn";
  if (const char* home = std::getenv("HOME"); home != nullptr && home[0] == '/') return std::string(home) + below_home;
  return "/tmp/cairn-" + std::to_string(::geteuid());
}

std::string uploads_dir(const std::string& dir) { return dir + "/uploads"; }

std::optional<JournalEntry> read_entry(const std::string& path) {
  auto text = os::posix_file_system().read_file(path, kFileBytesMax);
  if (!text) return std::nullopt;
  codec::ByteView all = codec::as_bytes(*text);
  if (all.size() < 4) return std::nullopt;
  codec::ByteReader tail(all.subspan(all.size() - 4));
  if (tail.u32() != codec::crc32c(all.first(all.size() - 4))) return std::nullopt;
  codec::ByteReader reader(all.first(all.size() - 4));
  reader.expect(kMagic);
  codec::ByteView scope = reader.prefixed(kScopeBytesMax);
  codec::ByteView upload = reader.bytes(UploadId::kSize);
  codec::ByteView secret = reader.prefixed(kSecretBytesMax);
  if (!reader.finished()) return std::nullopt;
  return JournalEntry{std::string(codec::as_text(scope)), UploadId::from_bytes(upload.data()),
                      std::string(codec::as_text(secret))};
}

std::string lock_line() { return "cairn put, pid " + std::to_string(::getpid()); }

}  // namespace

std::string default_state_dir() { return default_dir("XDG_STATE_HOME", "/.local/state/cairn"); }
std::string default_cache_dir() { return default_dir("XDG_CACHE_HOME", "/.cache/cairn"); }

Result<std::unique_ptr<Journal>> Journal::open(const std::string& dir, const std::string& source) {
  std::string folder = uploads_dir(dir);
  CAIRN_CHECK_OK(os::posix_file_system().make_directories(folder, 0700));
  std::string path = folder + "/" + codec::sha256(codec::as_bytes(source)).hex().substr(0, 32);
  auto lock = os::LockFile::try_lock(path + ".lock", lock_line());
  if (!lock && lock.error().code() != Code::kBusy) return std::move(lock).error();
  os::LockFile held;
  if (lock) held = std::move(*lock);
  return std::unique_ptr<Journal>(new Journal(std::move(path), std::move(held)));
}

std::vector<std::unique_ptr<Journal>> Journal::abandoned(const std::string& dir, const std::string& scope) {
  std::vector<std::unique_ptr<Journal>> found;
  auto names = os::posix_file_system().list(uploads_dir(dir), {}, kJournalsMax);
  if (!names) return found;
  for (const os::DirectoryEntry& file : *names) {
    if (file.name.ends_with(".lock")) continue;
    std::string path = uploads_dir(dir) + "/" + file.name;
    // Looked at before it is locked: a put of another volume that begins now finds its journal free.
    std::optional<JournalEntry> entry = read_entry(path);
    if (!entry || entry->scope != scope) continue;
    auto lock = os::LockFile::try_lock(path + ".lock", lock_line());
    if (!lock) continue;
    found.push_back(std::unique_ptr<Journal>(new Journal(std::move(path), std::move(*lock))));
  }
  return found;
}

std::optional<JournalEntry> Journal::load() const { return locked_by_other() ? std::nullopt : read_entry(path_); }

Status Journal::save(const JournalEntry& entry) {
  if (locked_by_other()) return ok();
  codec::Bytes bytes;
  codec::ByteWriter writer(bytes);
  writer.bytes(kMagic);
  writer.prefixed(entry.scope);
  writer.bytes(entry.upload.bytes());
  writer.prefixed(entry.secret);
  writer.u32(codec::crc32c(bytes));
  return os::posix_file_system().write_file_atomic(path_, bytes, 0600);
}

void Journal::clear() {
  if (locked_by_other()) return;
  // An entry that could not be removed is refused by the server later; it costs one round trip.
  (void)os::posix_file_system().remove(path_).has_value();
}

std::string journal_scope(const Remote& remote) { return remote.scope() + "\n" + os::host_name(); }

uint64_t end_abandoned_uploads(Remote& remote, const std::string& dir, const Deadline& deadline) {
  uint64_t ended = 0;
  for (const std::unique_ptr<Journal>& journal : Journal::abandoned(dir, journal_scope(remote))) {
    std::optional<JournalEntry> entry = journal->load();
    if (!entry) continue;
    UploadGrant grant;
    grant.upload = entry->upload;
    grant.secret = entry->secret;
    Status closed = remote.close_upload(grant, deadline);
    bool gone = !closed && closed.error().code() == Code::kUploadNotFound;
    if (closed || gone) journal->clear();
    if (closed) ++ended;
  }
  return ended;
}

}  // namespace cairn::transfer
