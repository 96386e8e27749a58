#include "agent/sandbox.h"

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "base/log.h"
#include "base/whole_number.h"
#include "os/fd.h"
#include "os/file_system.h"

namespace cairn::agent {
namespace {

constexpr int kStatusFd = 3;
constexpr size_t kProcFileBytesMax = 64 * 1024;

bool exists(const std::string& path) {
  auto there = os::posix_file_system().exists(path);
  return there && *there;
}

// Where a link at the end of a system path really leads ("" when nowhere): binding the link itself would dangle inside.
std::string resolved(const std::string& path) {
  std::error_code error;
  std::filesystem::path real = std::filesystem::canonical(path, error);
  return error ? std::string() : real.string();
}

bool is_inside(const std::string& path, const std::string& folder) { return path.starts_with(folder + "/"); }

// What programs read of /etc; the rest of it (keys, shadow, services' tokens) stays outside.
constexpr const char* kEtc[] = {
    "alternatives", "bash.bashrc", "ca-certificates", "ca-certificates.conf", "crypto-policies", "debian_version",
    "default/locale", "fonts", "gai.conf", "group", "host.conf", "hosts", "inputrc", "java-11-openjdk", "java-17-openjdk",
    "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.alias", "localtime", "login.defs", "magic", "mime.types",
    "nsswitch.conf", "OpenCL", "os-release", "passwd", "perl", "pki/ca-trust", "pki/tls/cert.pem", "pki/tls/certs",
    "pki/tls/openssl.cnf", "profile", "profile.d", "protocols", "python3", "python3.11", "python3.12", "python3.13",
    "resolv.conf", "rpc", "services", "ssl/cert.pem", "ssl/certs", "ssl/openssl.cnf", "terminfo", "timezone", "vulkan"};

void add(std::vector<std::string>& arguments, std::initializer_list<std::string> words) {
  arguments.insert(arguments.end(), words);
}

// Covers what is hidden, at the place where a folder that is shown contains it. Both sides by their real paths: the way that a
// setting names may lead through links.
void add_covers(std::vector<std::string>& arguments, const SandboxSpec& spec, const std::vector<std::string>& shown) {
  for (const std::string& hidden : spec.hidden) {
    std::string real = resolved(hidden);
    struct stat stat;
    if (real.empty() || ::stat(real.c_str(), &stat) != 0) continue;
    for (const std::string& top : shown) {
      std::string real_top = resolved(top);
      if (real != real_top && !is_inside(real, real_top)) continue;
      std::string place = top + real.substr(real_top.size());
      if (S_ISDIR(stat.st_mode)) add(arguments, {"--tmpfs", place});
      else add(arguments, {"--ro-bind", "/dev/null", place});
    }
  }
}

void add_system(std::vector<std::string>& arguments, const SandboxSpec& spec) {
  std::vector<std::string> shown;
  for (const char* top : {"/usr", "/opt", "/nix", "/gnu"}) {
    if (!exists(top)) continue;
    add(arguments, {"--ro-bind", top, top});
    shown.emplace_back(top);
  }
  for (const char* top : {"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}) {
    struct stat stat;
    if (::lstat(top, &stat) != 0) continue;
    std::array<char, PATH_MAX> target;
    ssize_t length = S_ISLNK(stat.st_mode) ? ::readlink(top, target.data(), target.size()) : -1;
    if (length > 0) {
      add(arguments, {"--symlink", std::string(target.data(), static_cast<size_t>(length)), top});
    } else {
      add(arguments, {"--ro-bind", top, top});
      shown.emplace_back(top);
    }
  }
  for (const char* name : kEtc) {
    std::string path = std::string("/etc/") + name;
    std::string real = resolved(path);
    if (real.empty()) continue;
    add(arguments, {"--ro-bind", real, path});
    shown.push_back(path);
  }
  add_covers(arguments, spec, shown);
}

// A process with user id 0 and no capability may still write what root owns below /proc (core_pattern among it), and
// bubblewrap leaves that open when the agent is root: everything that is not about a process is bound read-only.
void add_proc_covers(std::vector<std::string>& arguments) {
  auto entries = os::posix_file_system().list("/proc");
  if (!entries) return;
  for (const os::DirectoryEntry& entry : *entries) {
    std::string path = "/proc/" + entry.name;
    struct stat stat;
    if (entry.name.find_first_not_of("0123456789") == std::string::npos || ::lstat(path.c_str(), &stat) != 0) continue;
    bool writable_file = S_ISREG(stat.st_mode) && (stat.st_mode & 0222) != 0;
    if (S_ISDIR(stat.st_mode) || writable_file) add(arguments, {"--ro-bind-try", path, path});
  }
}

void add_gpus(std::vector<std::string>& arguments, const SandboxSpec& spec) {
  if (spec.gpus.empty()) return;
  for (int64_t gpu : spec.gpus) {
    std::string device = fmt::format("/dev/nvidia{}", gpu);
    add(arguments, {"--dev-bind", device, device});
  }
  for (const char* device : {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset",
                             "/dev/nvidia-caps", "/dev/infiniband", "/dev/kfd", "/dev/dri"}) {
    add(arguments, {"--dev-bind-try", device, device});
  }
  add(arguments, {"--ro-bind", "/sys", "/sys"});
  for (const char* folder : {"/run/nvidia-persistenced", "/run/nvidia-topologyd"}) {
    add(arguments, {"--ro-bind-try", folder, folder});
  }
}

// The number after `key` in a line of bubblewrap's status.
std::optional<pid_t> status_number(std::string_view text, std::string_view key) {
  size_t at = text.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + key.size());
  while (!text.empty() && (text.front() == '"' || text.front() == ':' || text.front() == ' ')) text.remove_prefix(1);
  pid_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // The line may not have arrived whole.
  if (error != std::errc() || end == text.data() + text.size() || value <= 0) return std::nullopt;
  return value;
}

Result<std::string> read_proc(const std::string& path) {
  CAIRN_TRY(std::unique_ptr<os::ReadableFile> file, os::posix_file_system().open_read(path));
  std::string text(kProcFileBytesMax, '\0');
  CAIRN_TRY(size_t count, file->read_at(0, {reinterpret_cast<uint8_t*>(text.data()), text.size()}));
  text.resize(count);
  return text;
}

}  // namespace

std::vector<std::string> sandbox_arguments(const SandboxSpec& spec) {
  std::vector<std::string> arguments;
  add(arguments, {"--unshare-pid", "--unshare-ipc", "--die-with-parent", "--new-session", "--cap-drop", "ALL"});
  add(arguments, {"--bind", spec.root, "/"});
  add_system(arguments, spec);
  add(arguments, {"--proc", "/proc", "--dev", "/dev"});
  add_proc_covers(arguments);
  add_gpus(arguments, spec);
  for (const SandboxBind& bind : spec.binds) {
    add(arguments, {bind.read_only ? "--ro-bind" : "--bind", bind.from, bind.to});
  }
  add(arguments, {"--chdir", spec.working_directory, "--"});
  arguments.insert(arguments.end(), spec.command.begin(), spec.command.end());
  return arguments;
}

Status check_sandbox() {
  if (!os::find_program("bwrap")) {
    return Error(Code::kSandboxUnavailable, "this node has no bubblewrap (bwrap)", "install the package bubblewrap");
  }
  os::SpawnOptions options;
  options.argv = {"bwrap", "--unshare-pid", "--die-with-parent", "--cap-drop", "ALL", "--ro-bind", "/", "/", "--proc", "/proc",
                  "--dev", "/dev", "--", "true"};
  CAIRN_TRY(os::CommandOutput output, os::run_command(options, Deadline::after(seconds(30))));
  if (!output.status.success()) {
    return Error(Code::kSandboxUnavailable, "bubblewrap cannot start a sandbox on this node: " + output.err.substr(0, 500),
                 "the agent runs as root, or user namespaces must be allowed");
  }
  return ok();
}

Result<Sandbox> Sandbox::start(const SandboxSpec& spec, int out, int err) {
  CAIRN_TRY(os::Pipe pipe, os::make_pipe());
  os::SpawnOptions options;
  options.argv = {"bwrap", "--json-status-fd", std::to_string(kStatusFd)};
  std::vector<std::string> arguments = sandbox_arguments(spec);
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  options.env.emplace();
  for (const auto& [name, value] : spec.environment) options.env->push_back(name + "=" + value);
  options.cwd = "/";
  options.stdout_fd = out;
  options.stderr_fd = err;
  options.extra_fds = {{pipe.write_end.get(), kStatusFd}};
  options.umask = 022;
  Sandbox sandbox;
  CAIRN_TRY(sandbox.process_, os::Process::spawn(options));
  pipe.write_end.reset();
  // The first thing bubblewrap says is the number of process 1.
  std::string said;
  Deadline deadline = Deadline::after(seconds(60));
  while (sandbox.init_pid_ < 0) {
    struct pollfd ready = {pipe.read_end.get(), POLLIN, 0};
    int count = ::poll(&ready, 1, 1000);
    if (count < 0 && errno != EINTR) return Error::from_errno(errno, "waiting for bubblewrap");
    if (deadline.expired()) return Error(Code::kSandboxUnavailable, "bubblewrap did not start the sandbox within 60 s");
    if (count <= 0) continue;
    char buffer[256];
    ssize_t got = ::read(pipe.read_end.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || said.size() > kProcFileBytesMax) {
      return Error(Code::kSandboxUnavailable, "bubblewrap could not start the sandbox; its message is in the log");
    }
    said.append(buffer, static_cast<size_t>(got));
    if (std::optional<pid_t> pid = status_number(said, "child-pid")) sandbox.init_pid_ = *pid;
  }
  sandbox.status_ = std::move(pipe.read_end);
  return sandbox;
}

void Sandbox::hold() const {
  Status held = process_.kill(SIGSTOP);
  if (!held) log_warning("{}", held.error().to_string());
}

void Sandbox::let_go() const {
  Status freed = process_.kill(SIGCONT);
  if (!freed) log_warning("{}", freed.error().to_string());
}

void Sandbox::kill_all() const {
  // Process 1 lives as long as bubblewrap itself, which is our child and not reaped yet: the number is still its own.
  if (process_.running() && init_pid_ > 0) ::kill(init_pid_, SIGKILL);
  let_go();
}

std::optional<int64_t> process_start_time(int64_t pid) {
  if (pid <= 0) return std::nullopt;
  auto text = read_proc(fmt::format("/proc/{}/stat", pid));
  if (!text) return std::nullopt;
  // The name in parentheses may hold anything; field 22 counts from the pid, 20 after the last ')'.
  size_t close = text->rfind(')');
  if (close == std::string::npos) return std::nullopt;
  std::string_view rest = std::string_view(*text).substr(close + 1);
  if (rest.starts_with(" Z")) return std::nullopt;
  for (int field = 0; field < 20 && !rest.empty(); ++field) {
    rest.remove_prefix(std::min(rest.find(' ', 1), rest.size()));
  }
  if (rest.empty()) return std::nullopt;
  rest.remove_prefix(1);
  int64_t ticks = 0;
  auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), ticks);
  if (error != std::errc()) return std::nullopt;
  return ticks;
}

Status end_leftover(int64_t pid, int64_t started, const Deadline& deadline) {
  while (true) {
    std::optional<int64_t> now = process_start_time(pid);
    if (!now || *now != started) return ok();
    ::kill(static_cast<pid_t>(pid), SIGKILL);
    if (deadline.expired()) {
      return Error(Code::kDeadlineExceeded, fmt::format("process {} of an earlier executor does not end", pid));
    }
    system_clock().sleep_for(milliseconds(10));
  }
}

namespace {

bool is_sandbox_of(const std::string& folder, int64_t pid) {
  auto command = read_proc(fmt::format("/proc/{}/cmdline", pid));
  if (!command) return false;
  std::string program = command->substr(0, command->find('\0'));
  if (program != "bwrap" && !program.ends_with("/bwrap")) return false;
  return command->find('\0' + folder + "/") != std::string::npos;
}

std::vector<pid_t> sandboxes_of(const std::string& folder) {
  std::vector<pid_t> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    std::string name = entry.path().filename();
    std::optional<pid_t> pid = whole_number<pid_t>(name);
    if (!pid || !is_sandbox_of(folder, *pid)) continue;
    if (process_start_time(*pid)) found.push_back(*pid);
  }
  return found;
}

}  // namespace

Status end_leftover_sandboxes(const std::string& folder, const Deadline& deadline) {
  while (true) {
    std::vector<pid_t> left = sandboxes_of(folder);
    if (left.empty()) return ok();
    for (pid_t pid : left) ::kill(pid, SIGKILL);
    if (deadline.expired()) {
      return Error(Code::kDeadlineExceeded, fmt::format("sandbox {} of an earlier executor does not end", left.front()));
    }
    system_clock().sleep_for(milliseconds(10));
  }
}

}  // namespace cairn::agent
