#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "os/process.h"

namespace cairn::os {
namespace {

constexpr int kPollSliceMs = 50;
// A grandchild may keep the pipe open after the command has ended: how long its output is still taken.
constexpr Duration kAfterEnd = milliseconds(200);

struct Captured {
  Fd fd;
  std::string* text;
  size_t max_bytes;

  // False at the end.
  bool drain() {
    char buffer[16 * 1024];
    ssize_t got = read(fd.get(), buffer, sizeof buffer);
    if (got < 0) return errno == EINTR || errno == EAGAIN;
    if (got == 0) return false;
    text->append(buffer, std::min(static_cast<size_t>(got), max_bytes - text->size()));
    return true;
  }
};

}  // namespace

Result<CommandOutput> run_command(SpawnOptions options, const Deadline& deadline, size_t max_bytes) {
  CAIRN_TRY(Pipe out, make_pipe());
  CAIRN_TRY(Pipe err, make_pipe());
  options.stdout_fd = out.write_end.get();
  options.stderr_fd = err.write_end.get();
  options.new_process_group = !options.new_session;
  CAIRN_TRY(Process process, Process::spawn(options));
  out.write_end.reset();
  err.write_end.reset();

  CommandOutput output;
  Captured streams[] = {{std::move(out.read_end), &output.out, max_bytes},
                        {std::move(err.read_end), &output.err, max_bytes}};
  for (Captured& stream : streams) fcntl(stream.fd.get(), F_SETFL, O_NONBLOCK);
  std::optional<Deadline> closing;
  while (streams[0].fd.valid() || streams[1].fd.valid()) {
    CAIRN_CHECK_OK(deadline.check());
    if (closing && closing->expired()) break;
    pollfd ready[] = {{streams[0].fd.get(), POLLIN, 0}, {streams[1].fd.get(), POLLIN, 0}};
    poll(ready, 2, kPollSliceMs);
    for (int i = 0; i < 2; ++i) {
      if (ready[i].revents != 0 && !streams[i].drain()) streams[i].fd.reset();
    }
    CAIRN_TRY(std::optional<ExitStatus> ended, process.try_wait());
    if (ended && !closing) closing = Deadline::after(kAfterEnd);
  }
  CAIRN_TRY(output.status, process.wait(deadline));
  return output;
}

}  // namespace cairn::os
