#include "os/fd.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace cairn::os {
namespace {

// Linux moves at most 2 GiB a call.
constexpr size_t kTransferMax = size_t{1} << 30;

template <class Call>
ssize_t retry_eintr(Call call) {
  ssize_t result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

template <class Write>
Status write_loop(ByteView data, std::string_view what, Write write_some) {
  size_t done = 0;
  while (done < data.size()) {
    ssize_t wrote =
        retry_eintr([&] { return write_some(data.data() + done, std::min(data.size() - done, kTransferMax), done); });
    if (wrote < 0) return Error::from_errno(errno, "write " + std::string(what));
    if (wrote == 0) return Error(Code::kIoError, "write " + std::string(what) + ": nothing was written");
    done += static_cast<size_t>(wrote);
  }
  return ok();
}

template <class Read>
Result<size_t> read_loop(std::span<uint8_t> out, std::string_view what, Read read_some) {
  size_t done = 0;
  while (done < out.size()) {
    ssize_t got =
        retry_eintr([&] { return read_some(out.data() + done, std::min(out.size() - done, kTransferMax), done); });
    if (got < 0) return Error::from_errno(errno, "read " + std::string(what));
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

}  // namespace

void Fd::reset(int fd) {
  int old = std::exchange(fd_, fd);
  if (old >= 0) ::close(old);
}

Result<Fd> Fd::duplicate() const {
  int fd = fcntl(fd_, F_DUPFD_CLOEXEC, 3);
  if (fd < 0) return Error::from_errno(errno, "duplicate a descriptor");
  return Fd(fd);
}

Result<Pipe> make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Error::from_errno(errno, "make a pipe");
  Pipe pipe;
  pipe.read_end.reset(ends[0]);
  pipe.write_end.reset(ends[1]);
  return pipe;
}

Result<Fd> open_append_fd(const std::string& path, uint32_t mode) {
  Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, mode));
  if (!fd.valid()) return Error::from_errno(errno, "open " + path);
  return fd;
}

Status write_all(int fd, ByteView data, std::string_view what) {
  return write_loop(data, what, [fd](const uint8_t* at, size_t size, size_t) { return ::write(fd, at, size); });
}

Status append_whole(int fd, ByteView data, std::string_view what) {
  const off_t end = ::lseek(fd, 0, SEEK_END);
  Status written = write_all(fd, data, what);
  if (!written && end >= 0) static_cast<void>(::ftruncate(fd, end) == 0);
  return written;
}

Status write_all_at(int fd, uint64_t offset, ByteView data, std::string_view what) {
  return write_loop(data, what, [fd, offset](const uint8_t* at, size_t size, size_t done) {
    return ::pwrite(fd, at, size, static_cast<off_t>(offset + done));
  });
}

Result<size_t> read_full(int fd, std::span<uint8_t> out, std::string_view what) {
  return read_loop(out, what, [fd](uint8_t* at, size_t size, size_t) { return ::read(fd, at, size); });
}

Result<size_t> read_full_at(int fd, uint64_t offset, std::span<uint8_t> out, std::string_view what) {
  return read_loop(out, what, [fd, offset](uint8_t* at, size_t size, size_t done) {
    return ::pread(fd, at, size, static_cast<off_t>(offset + done));
  });
}

Result<std::string> read_to_end(int fd, size_t max_bytes, std::string_view what) {
  std::string text;
  for (;;) {
    size_t old_size = text.size();
    size_t room = std::min<size_t>(std::max<size_t>(old_size, 4096), max_bytes - old_size + 1);
    text.resize(old_size + room);
    CAIRN_TRY(size_t got, read_full(fd, {reinterpret_cast<uint8_t*>(text.data()) + old_size, room}, what));
    text.resize(old_size + got);
    if (text.size() > max_bytes) {
      return Error(Code::kLimitExceeded, std::string(what) + " is larger than " + std::to_string(max_bytes) + " bytes");
    }
    if (got < room) return text;
  }
}

Status sync_fd(int fd, std::string_view what) {
  // After a failed fsync the pages may be clean and lost: asking again would say ok, so it is asked once.
  if (fsync(fd) != 0) return Error::from_errno(errno, "sync " + std::string(what));
  return ok();
}

Status close_fd(Fd fd, std::string_view what) {
  // EINTR included, the descriptor is gone whatever close says.
  if (fd.valid() && ::close(fd.release()) != 0 && errno != EINTR) {
    return Error::from_errno(errno, "close " + std::string(what));
  }
  return ok();
}

}  // namespace cairn::os
