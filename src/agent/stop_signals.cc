#include "agent/stop_signals.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "agent/sandbox.h"
#include "base/whole_number.h"
#include "os/fd.h"
#include "os/file_system.h"

namespace cairn::agent {
namespace {

constexpr size_t kStatusBytesMax = 16 * 1024;
// They wait for their children before anything they trap is done.
constexpr std::array<std::string_view, 8> kShells = {"sh", "bash", "dash", "zsh", "ksh", "mksh", "fish", "busybox"};

struct Traits {
  bool handles_term = false;
  bool ignores_term = false;
  bool shell = false;
  bool reads_pipe = false;

  bool filter() const { return reads_pipe && !handles_term && !ignores_term; }
  bool answers_for_children() const { return handles_term && !shell; }
};

std::string read_text(const std::string& path) {
  auto file = os::posix_file_system().open_read(path);
  if (!file) return "";
  std::string text(kStatusBytesMax, '\0');
  auto count = (*file)->read_at(0, {reinterpret_cast<uint8_t*>(text.data()), text.size()});
  text.resize(count ? *count : 0);
  return text;
}

// The value of a line "Name:\tvalue" of /proc/<pid>/status.
std::string_view field(std::string_view status, std::string_view name) {
  size_t at = status.find(name);
  if (at == std::string_view::npos) return {};
  status.remove_prefix(at + name.size());
  status.remove_prefix(std::min(status.find_first_not_of(" \t"), status.size()));
  return status.substr(0, status.find('\n'));
}

bool holds_term(std::string_view mask) {
  uint64_t bits = 0;
  std::from_chars(mask.data(), mask.data() + mask.size(), bits, 16);
  return (bits >> (SIGTERM - 1) & 1) != 0;
}

Traits traits_of(pid_t pid) {
  std::string status = read_text(fmt::format("/proc/{}/status", pid));
  Traits traits;
  std::string_view name = field(status, "Name:");
  traits.shell = std::find(kShells.begin(), kShells.end(), name) != kShells.end();
  traits.handles_term = holds_term(field(status, "\nSigCgt:"));
  traits.ignores_term = holds_term(field(status, "\nSigIgn:"));
  std::array<char, 8> target;
  ssize_t length = ::readlink(fmt::format("/proc/{}/fd/0", pid).c_str(), target.data(), target.size());
  traits.reads_pipe = length > 0 && std::string_view(target.data(), static_cast<size_t>(length)).starts_with("pipe:");
  return traits;
}

std::multimap<pid_t, pid_t> children_by_parent() {
  std::multimap<pid_t, pid_t> children;
  auto entries = os::posix_file_system().list("/proc");
  if (!entries) return children;
  for (const os::DirectoryEntry& entry : *entries) {
    std::optional<pid_t> pid = whole_number<pid_t>(entry.name);
    if (!pid) continue;
    std::string status = read_text(fmt::format("/proc/{}/status", *pid));
    if (auto parent = whole_number<pid_t>(field(status, "\nPPid:"))) children.emplace(*parent, *pid);
  }
  return children;
}

// `started` was read before the descriptor was opened and is read again after: the descriptor is that process's.
void tell(pid_t pid, int64_t started) {
  os::Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd.valid() || process_start_time(pid) != std::optional<int64_t>(started)) return;
  ::syscall(SYS_pidfd_send_signal, pidfd.get(), SIGTERM, nullptr, 0);
}

}  // namespace

void StopSignals::send() {
  std::multimap<pid_t, pid_t> children = children_by_parent();
  std::vector<std::pair<pid_t, int64_t>> filters;
  bool others = false;  // that still run
  std::vector<pid_t> parents = {init_};
  while (!parents.empty()) {
    auto [child, end] = children.equal_range(parents.back());
    parents.pop_back();
    for (; child != end; ++child) {
      pid_t pid = child->second;
      std::optional<int64_t> started = process_start_time(pid);
      if (!started) continue;
      std::pair<pid_t, int64_t> process(pid, *started);
      if (told_.contains(process)) {
        // What it has started since is how it saves.
        others = true;
        continue;
      }
      Traits traits = traits_of(pid);
      if (!traits.answers_for_children()) parents.push_back(pid);
      if (traits.filter()) {
        filters.push_back(process);
        continue;
      }
      others = true;
      told_.insert(process);
      tell(pid, *started);
    }
  }
  if (others) return;
  for (const auto& process : filters) {
    told_.insert(process);
    tell(process.first, process.second);
  }
}

}  // namespace cairn::agent
