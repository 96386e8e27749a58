#include "os/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/check.h"

extern char** environ;

namespace cairn::os {
namespace {

// How soon a cancelled wait is noticed; the child's own end is noticed at once.
constexpr int kWaitSliceMs = 50;

ExitStatus status_of(const siginfo_t& info) {
  ExitStatus status;
  if (info.si_code == CLD_EXITED) {
    status.code = info.si_status;
  } else {
    status.signal = info.si_status;
  }
  return status;
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (const std::string& text : strings) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

// What a child that could not start says about it, through a pipe that exec closes.
struct Failure {
  int err;
  char step[24];
};

// Everything the child needs, made before fork: between fork and exec it may neither allocate nor lock.
struct Plan {
  const char* program;
  std::vector<char*> argv;
  std::vector<char*> env;
  const SpawnOptions* options;
  std::vector<std::pair<int, int>> fds;  // {parent's, child's}, the three standard ones first
  int report_fd;
  pid_t parent;
};

[[noreturn]] void give_up(int report_fd, const char* step) {
  Failure failure{errno, {}};
  std::strncpy(failure.step, step, sizeof failure.step - 1);
  ssize_t ignored = write(report_fd, &failure, sizeof failure);
  static_cast<void>(ignored);
  _exit(127);
}

void reset_signals() {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) sigaction(signal, &standard, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void run_child(Plan& plan) {
  const SpawnOptions& options = *plan.options;
  int report = plan.report_fd;
  if (options.new_session && setsid() < 0) give_up(report, "start a session");
  if (options.new_process_group && !options.new_session && setpgid(0, 0) != 0) give_up(report, "start a group");
  if (options.death_signal != 0) {
    if (prctl(PR_SET_PDEATHSIG, options.death_signal) != 0) give_up(report, "set the death signal");
    if (getppid() != plan.parent) _exit(127);  // it ended before the signal was set
  }
  if (options.umask) umask(static_cast<mode_t>(*options.umask));
  if (!options.cwd.empty() && chdir(options.cwd.c_str()) != 0) give_up(report, "enter the folder");

  // First out of the way of every number that is to be set, then into place.
  int highest = 2;
  for (const auto& [from, to] : plan.fds) highest = std::max(highest, to);
  report = fcntl(report, F_DUPFD_CLOEXEC, highest + 1);
  if (report < 0) _exit(127);
  for (auto& [from, to] : plan.fds) {
    if (from == kNullDevice) from = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (from >= 0) from = fcntl(from, F_DUPFD_CLOEXEC, highest + 1);
    if (from < 0) give_up(report, "pass a descriptor");
  }
  for (const auto& [from, to] : plan.fds) {
    if (dup2(from, to) < 0) give_up(report, "pass a descriptor");
  }
  // Numbers in the gaps and above belong to the parent.
  for (int fd = 3; fd <= highest; ++fd) {
    bool wanted = false;
    for (const auto& [from, to] : plan.fds) wanted = wanted || to == fd;
    if (!wanted) close(fd);
  }
  if (report > highest + 1) syscall(SYS_close_range, highest + 1, report - 1, 0);
  if (syscall(SYS_close_range, report + 1, ~0u, 0) != 0) give_up(report, "close descriptors");
  reset_signals();
  execve(plan.program, plan.argv.data(), plan.env.data());
  give_up(report, "execute");
}

Result<ExitStatus> reap(int pidfd) {
  siginfo_t info{};
  for (;;) {
    if (waitid(P_PIDFD, static_cast<id_t>(pidfd), &info, WEXITED) == 0) return status_of(info);
    if (errno != EINTR) return Error::from_errno(errno, "wait for a child process");
  }
}

}  // namespace

std::string ExitStatus::to_string() const {
  if (signal == 0) return "exit code " + std::to_string(code);
  const char* name = sigdescr_np(signal);
  return "killed by signal " + std::to_string(signal) + (name ? " (" + std::string(name) + ")" : "");
}

Error replace_process(const std::vector<std::string>& argv) {
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  ::signal(SIGPIPE, SIG_DFL);  // an ignored signal would stay ignored
  ::execv(words[0], words.data());
  return Error::from_errno(errno, "start " + argv[0]);
}

Status signal_process(pid_t pid, int signal) {
  if (pid > 1 && ::kill(pid, signal) == 0) return ok();
  int err = pid > 1 ? errno : EINVAL;
  if (err == ESRCH) return Error(Code::kFileNotFound, "there is no process " + std::to_string(pid));
  return Error::from_errno(err, "signal process " + std::to_string(pid));
}

std::optional<std::string> find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    return access(name.c_str(), X_OK) == 0 ? std::optional<std::string>(name) : std::nullopt;
  }
  const char* value = getenv("PATH");
  std::string_view path = value ? value : "/usr/local/bin:/usr/bin:/bin";
  while (!name.empty()) {
    size_t colon = std::min(path.find(':'), path.size());
    std::string folder(path.substr(0, colon));
    std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    struct stat st;
    if (stat(candidate.c_str(), &st) == 0 && S_ISREG(st.st_mode) && access(candidate.c_str(), X_OK) == 0)
      return candidate;
    if (colon == path.size()) break;
    path.remove_prefix(colon + 1);
  }
  return std::nullopt;
}

Process::~Process() {
  end_now();
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      pidfd_(std::move(other.pidfd_)),
      own_group_(other.own_group_),
      status_(std::exchange(other.status_, std::nullopt)) {}

Process& Process::operator=(Process&& other) noexcept {
  if (this != &other) {
    end_now();
    pid_ = std::exchange(other.pid_, -1);
    pidfd_ = std::move(other.pidfd_);
    own_group_ = other.own_group_;
    status_ = std::exchange(other.status_, std::nullopt);
  }
  return *this;
}

void Process::end_now() {
  if (!running()) return;
  if (own_group_) static_cast<void>(kill_group(SIGKILL).has_value());
  static_cast<void>(kill(SIGKILL).has_value());
  static_cast<void>(reap(pidfd_.get()).has_value());
  pid_ = -1;
}

void Process::detach() {
  pid_ = -1;
  pidfd_.reset();
}

Result<Process> Process::spawn(const SpawnOptions& options) {
  CAIRN_CHECK(!options.argv.empty());
  const std::string& name = options.argv.front();
  std::string program = name;
  if (name.find('/') == std::string::npos) {
    std::optional<std::string> found = find_program(name);
    if (!found) return Error(Code::kFileNotFound, "there is no program '" + name + "' in PATH");
    program = *found;
  }
  Plan plan;
  plan.program = program.c_str();
  plan.argv = pointers(options.argv);
  if (options.env) {
    plan.env = pointers(*options.env);
  } else {
    for (char** at = environ; at && *at; ++at) plan.env.push_back(*at);
    plan.env.push_back(nullptr);
  }
  plan.options = &options;
  int standard[] = {options.stdin_fd, options.stdout_fd, options.stderr_fd};
  for (int i = 0; i < 3; ++i) plan.fds.emplace_back(standard[i] == kInherit ? i : standard[i], i);
  for (const auto& [from, to] : options.extra_fds) {
    CAIRN_CHECK(from >= 0 && to >= 3);
    plan.fds.emplace_back(from, to);
  }
  plan.parent = getpid();
  CAIRN_TRY(Pipe report, make_pipe());
  plan.report_fd = report.write_end.get();

  pid_t pid = fork();
  if (pid < 0) return Error::from_errno(errno, "start " + name);
  if (pid == 0) run_child(plan);

  Process process;
  process.pid_ = pid;
  process.own_group_ = options.new_process_group || options.new_session;
  process.pidfd_.reset(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!process.pidfd_.valid()) {
    Error error = Error::from_errno(errno, "watch the process of " + name);
    ::kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    process.pid_ = -1;
    return error;
  }
  report.write_end.reset();
  Failure failure{};
  CAIRN_TRY(size_t got, read_full(report.read_end.get(), {reinterpret_cast<uint8_t*>(&failure), sizeof failure}, name));
  if (got == sizeof failure) {
    static_cast<void>(process.wait(Deadline::never()).has_value());
    return Error::from_errno(failure.err, "start " + program + " (" + failure.step + ")");
  }
  return process;
}

Result<std::optional<ExitStatus>> Process::try_wait() {
  if (status_) return std::optional<ExitStatus>(status_);
  if (pid_ <= 0) return Error(Code::kInternal, "there is no process to wait for");
  siginfo_t info{};
  if (waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED | WNOHANG) != 0) {
    return Error::from_errno(errno, "wait for process " + std::to_string(pid_));
  }
  if (info.si_pid != 0) status_ = status_of(info);
  return std::optional<ExitStatus>(status_);
}

Result<ExitStatus> Process::wait(const Deadline& deadline) {
  for (;;) {
    CAIRN_TRY(std::optional<ExitStatus> status, try_wait());
    if (status) return *status;
    CAIRN_CHECK_OK(deadline.check());
    auto left = std::chrono::duration_cast<milliseconds>(deadline.remaining()).count() + 1;
    pollfd ended{pidfd_.get(), POLLIN, 0};
    poll(&ended, 1, static_cast<int>(std::clamp<int64_t>(left, 0, kWaitSliceMs)));
  }
}

Status Process::kill(int signal) const {
  if (!running()) return ok();
  if (syscall(SYS_pidfd_send_signal, pidfd_.get(), signal, nullptr, 0) == 0 || errno == ESRCH) return ok();
  return Error::from_errno(errno, "signal process " + std::to_string(pid_));
}

Status Process::kill_group(int signal) const {
  CAIRN_CHECK(own_group_ || pid_ < 0);
  // Until it is waited for, the child's number (and so its group's) belongs to nobody else.
  if (!running()) return ok();
  if (::kill(-pid_, signal) == 0 || errno == ESRCH) return ok();
  return Error::from_errno(errno, "signal the group of process " + std::to_string(pid_));
}

Result<ExitStatus> Process::terminate(Duration grace) {
  CAIRN_CHECK_OK(own_group_ ? kill_group(SIGTERM) : kill(SIGTERM));
  Result<ExitStatus> ended = wait(Deadline::after(grace));
  if (ended || ended.error().code() != Code::kDeadlineExceeded) return ended;
  CAIRN_CHECK_OK(own_group_ ? kill_group(SIGKILL) : kill(SIGKILL));
  return wait(Deadline::never());
}

}  // namespace cairn::os
