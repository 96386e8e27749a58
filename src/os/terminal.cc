#include "os/terminal.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>

#include "os/fd.h"

namespace cairn::os {
namespace {

constexpr size_t kLineBytesMax = 4096;

// Echo off while it lives.
class QuietTerminal {
 public:
  explicit QuietTerminal(int fd) : fd_(fd), changed_(tcgetattr(fd, &before_) == 0) {
    if (!changed_) return;
    termios quiet = before_;
    quiet.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    changed_ = tcsetattr(fd_, TCSAFLUSH, &quiet) == 0;
  }
  ~QuietTerminal() {
    if (changed_) tcsetattr(fd_, TCSAFLUSH, &before_);
  }
  QuietTerminal(const QuietTerminal&) = delete;
  QuietTerminal& operator=(const QuietTerminal&) = delete;

 private:
  int fd_;
  termios before_{};
  bool changed_;
};

}  // namespace

bool is_terminal(int fd) {
  return isatty(fd) == 1;
}

size_t terminal_width(int fd, size_t otherwise) {
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return otherwise;
  return size.ws_col;
}

Result<std::string> read_hidden_line(const std::string& prompt) {
  Fd terminal(open("/dev/tty", O_RDWR | O_CLOEXEC));
  if (!terminal.valid()) return Error(Code::kFileUnreadable, "there is no terminal to ask on");
  CAIRN_CHECK_OK(
      write_all(terminal.get(), {reinterpret_cast<const uint8_t*>(prompt.data()), prompt.size()}, "terminal"));
  std::string line;
  {
    QuietTerminal quiet(terminal.get());
    char c;
    for (;;) {
      ssize_t got = read(terminal.get(), &c, 1);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0 || c == '\n') break;
      if (line.size() == kLineBytesMax) return Error(Code::kLimitExceeded, "the line is longer than 4096 bytes");
      line.push_back(c);
    }
  }
  const uint8_t newline = '\n';
  CAIRN_CHECK_OK(write_all(terminal.get(), {&newline, 1}, "terminal"));
  return line;
}

}  // namespace cairn::os
