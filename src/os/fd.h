// Fd owns a file descriptor; the free functions read and write one completely, retrying EINTR and short transfers. Every
// descriptor Cairn opens is close-on-exec.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace cairn::os {

using ByteView = std::span<const uint8_t>;

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() { reset(); }
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  // Closes what it holds; errors are lost (a writer calls sync and close_fd first).
  void reset(int fd = -1);
  // A second descriptor of the same open file.
  Result<Fd> duplicate() const;

 private:
  int fd_ = -1;
};

struct Pipe {
  Fd read_end;
  Fd write_end;
};
Result<Pipe> make_pipe();

// Opens (creating it when absent) to write at its end, e.g. as a child's output.
Result<Fd> open_append_fd(const std::string& path, uint32_t mode);

// `what` names the file in errors.
Status write_all(int fd, ByteView data, std::string_view what);
// At the end of a file opened for appending. After an error the file is as it was, as far as it can be cut.
Status append_whole(int fd, ByteView data, std::string_view what);
Status write_all_at(int fd, uint64_t offset, ByteView data, std::string_view what);
// Up to out.size() bytes; less only at the end of the file.
Result<size_t> read_full(int fd, std::span<uint8_t> out, std::string_view what);
Result<size_t> read_full_at(int fd, uint64_t offset, std::span<uint8_t> out, std::string_view what);
// Everything up to the end; limit_exceeded when it is more than `max_bytes`.
Result<std::string> read_to_end(int fd, size_t max_bytes, std::string_view what);
Status sync_fd(int fd, std::string_view what);
// Closes and reports what close(2) says.
Status close_fd(Fd fd, std::string_view what);

}  // namespace cairn::os
