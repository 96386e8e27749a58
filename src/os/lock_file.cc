#include "os/lock_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

namespace cairn::os {
namespace {

constexpr size_t kNoteBytesMax = 512;
constexpr Duration kPollPause = milliseconds(50);

std::string read_note(int fd) {
  std::string note(kNoteBytesMax, '\0');
  ssize_t got = pread(fd, note.data(), note.size(), 0);
  note.resize(got < 0 ? 0 : static_cast<size_t>(got));
  while (!note.empty() && (note.back() == '\n' || note.back() == '\0')) note.pop_back();
  return note;
}

}  // namespace

Result<LockFile> LockFile::try_lock(const std::string& path, const std::string& note) {
  Fd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.valid()) return Error::from_errno(errno, "open the lock " + path);
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return Error::from_errno(errno, "lock " + path);
    std::string holder = read_note(fd.get());
    return Error(Code::kBusy, path + " is locked by " + (holder.empty() ? "another process" : holder))
        .with_holder(holder);
  }
  std::string line = note.substr(0, kNoteBytesMax - 1) + "\n";
  if (ftruncate(fd.get(), 0) != 0) return Error::from_errno(errno, "write the lock " + path);
  CAIRN_CHECK_OK(write_all_at(fd.get(), 0, {reinterpret_cast<const uint8_t*>(line.data()), line.size()}, path));
  return LockFile(std::move(fd));
}

Result<LockFile> LockFile::lock(const std::string& path, const std::string& note, const Deadline& deadline) {
  for (;;) {
    Result<LockFile> lock = try_lock(path, note);
    if (lock || lock.error().code() != Code::kBusy) return lock;
    if (deadline.expired()) {
      if (deadline.token().cancelled()) return Error(Code::kCancelled, "cancelled");
      return lock;
    }
    std::this_thread::sleep_for(std::min(kPollPause, deadline.remaining()));
  }
}

std::string lock_note(const std::string& path) {
  Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return fd.valid() ? read_note(fd.get()) : std::string();
}

}  // namespace cairn::os
