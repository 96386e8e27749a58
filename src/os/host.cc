#include "os/host.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <thread>

#include "os/file_system.h"

namespace cairn::os {

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  if (gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "localhost";
  return name;
}

Result<std::string> boot_id() {
  // Files of /proc have no size: read to the end.
  CAIRN_TRY(std::unique_ptr<ReadableFile> file, posix_file_system().open_read("/proc/sys/kernel/random/boot_id"));
  CAIRN_TRY(std::string text, read_to_end(file->native_fd(), 64, "boot_id"));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

size_t usable_cpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return static_cast<size_t>(CPU_COUNT(&set));
  return std::max<size_t>(1, std::thread::hardware_concurrency());
}

Result<std::string> current_directory() {
  char path[PATH_MAX];
  if (getcwd(path, sizeof path) == nullptr) return Error::from_errno(errno, "the current folder");
  return std::string(path);
}

Result<std::string> executable_path() {
  char path[PATH_MAX];
  ssize_t size = readlink("/proc/self/exe", path, sizeof path);
  if (size < 0) return Error::from_errno(errno, "read /proc/self/exe");
  return std::string(path, static_cast<size_t>(size));
}

Result<std::string> program_beside(const std::string& name) {
  CAIRN_TRY(std::string own, executable_path());
  std::string path = own.substr(0, own.rfind('/') + 1) + name;
  if (access(path.c_str(), X_OK) == 0) return path;
  return Error(Code::kFileNotFound, "the program " + name + " is not installed here: there is no " + path,
               "install it in the folder of cairn (in a source tree: scripts/build.sh release " + name + ")");
}

}  // namespace cairn::os
