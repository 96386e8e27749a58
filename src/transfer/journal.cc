#include "transfer/journal.h"

#include <cstdlib>

#include "codec/bytes.h"
#include "codec/crc32c.h"
#include "codec/digest.h"
#include "os/file_system.h"

#include <unistd.h>

namespace cairn::transfer {
namespace {

constexpr std::string_view kMagic = "CJN1";
constexpr size_t kSecretBytesMax = 1024;
constexpr size_t kFileBytesMax = 4096;

std::string default_dir(const char* variable, const char* below_home) {
  if (const char* value = std::getenv(variable); value != nullptr && value[0] == '/') return std::string(value) + "/cairn";
  if (const char* home = std::getenv("HOME"); home != nullptr && home[0] == '/') return std::string(home) + below_home;
  return "/tmp/cairn-" + std::to_string(::geteuid());
}

}  // namespace

std::string default_state_dir() { return default_dir("XDG_STATE_HOME", "/.local/state/cairn"); }
std::string default_cache_dir() { return default_dir("XDG_CACHE_HOME", "/.cache/cairn"); }

Result<std::unique_ptr<Journal>> Journal::open(const std::string& dir, const std::string& source) {
  std::string folder = dir + "/uploads";
  CAIRN_CHECK_OK(os::posix_file_system().make_directories(folder, 0700));
  std::string path = folder + "/" + codec::sha256(codec::as_bytes(source)).hex().substr(0, 32);
  auto lock = os::LockFile::try_lock(path + ".lock", "cairn put, pid " + std::to_string(::getpid()));
  if (!lock && lock.error().code() != Code::kBusy) return std::move(lock).error();
  os::LockFile held;
  if (lock) held = std::move(*lock);
  return std::unique_ptr<Journal>(new Journal(std::move(path), std::move(held)));
}

std::optional<JournalEntry> Journal::load() const {
  if (locked_by_other()) return std::nullopt;
  auto text = os::posix_file_system().read_file(path_, kFileBytesMax);
  if (!text) return std::nullopt;
  codec::ByteView all = codec::as_bytes(*text);
  if (all.size() < 4) return std::nullopt;
  codec::ByteReader tail(all.subspan(all.size() - 4));
  if (tail.u32() != codec::crc32c(all.first(all.size() - 4))) return std::nullopt;
  codec::ByteReader reader(all.first(all.size() - 4));
  reader.expect(kMagic);
  codec::ByteView upload = reader.bytes(UploadId::kSize);
  codec::ByteView secret = reader.prefixed(kSecretBytesMax);
  if (!reader.finished()) return std::nullopt;
  return JournalEntry{UploadId::from_bytes(upload.data()), std::string(codec::as_text(secret))};
}

Status Journal::save(const JournalEntry& entry) {
  if (locked_by_other()) return ok();
  codec::Bytes bytes;
  codec::ByteWriter writer(bytes);
  writer.bytes(kMagic);
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

}  // namespace cairn::transfer
