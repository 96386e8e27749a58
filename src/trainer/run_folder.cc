#include "trainer/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <optional>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/whole_number.h"
#include "codec/bytes.h"
#include "os/file_system.h"

namespace cairn::trainer {
namespace {

// A trainer that was killed may take a moment to be gone with its processes.
constexpr int kLockTries = 20;
constexpr Duration kLockPause = milliseconds(100);

Result<int64_t> attempt_number(os::FileSystem& files, const std::string& logs) {
  const char* told = std::getenv("CAIRN_ATTEMPT");
  if (told != nullptr) {
    if (std::optional<int64_t> attempt = whole_number<int64_t>(told)) return *attempt;
  }
  constexpr std::string_view kPrefix = "attempt_";
  CAIRN_TRY(std::vector<os::DirectoryEntry> entries, files.list(logs));
  int64_t highest = 0;
  for (const os::DirectoryEntry& entry : entries) {
    std::string_view name(entry.name);
    if (!name.starts_with(kPrefix)) continue;
    highest = std::max(highest, whole_number<int64_t>(name.substr(kPrefix.size())).value_or(0));
  }
  return highest + 1;
}

// A convenience: where links are not to be had, there is none.
void point_latest_at(const std::string& logs, const std::string& attempt) {
  std::string fresh = logs + "/.latest";
  ::unlink(fresh.c_str());
  if (::symlink(attempt.c_str(), fresh.c_str()) == 0 && ::rename(fresh.c_str(), (logs + "/latest").c_str()) != 0) {
    ::unlink(fresh.c_str());
  }
}

// On the folder itself: a file would become part of the volume. Some network file systems know no such lock; then there is none.
Result<os::Fd> lock_folder(const std::string& root) {
  os::Fd folder(::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return Error::from_errno(errno, root);
  for (int tries = 0; tries < kLockTries; ++tries) {
    if (tries > 0) system_clock().sleep_for(kLockPause);
    if (::flock(folder.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return folder;
  }
  return Error(Code::kBusy, fmt::format("another process trains into {}", root), "wait for it, or choose another output folder");
}

}  // namespace

std::string mode_name(config::TrainingMode mode) { return mode == config::TrainingMode::kSft ? "sft" : "pretrain"; }

Result<RunFolder> prepare_run_folder(const std::string& root) {
  os::FileSystem& files = os::posix_file_system();
  RunFolder folder;
  folder.root = root;
  CAIRN_CHECK_OK(files.make_directories(root, 0755));
  CAIRN_TRY(folder.lock, lock_folder(root));
  std::string logs = root + "/logs";
  for (const std::string& name : {folder.checkpoints(), folder.monitors(), root + "/configs", logs}) {
    CAIRN_CHECK_OK(files.make_directories(name, 0755));
  }
  CAIRN_TRY(int64_t attempt, attempt_number(files, logs));
  std::string name = fmt::format("attempt_{}", attempt);
  folder.attempt_logs = logs + "/" + name;
  CAIRN_CHECK_OK(files.make_directories(folder.attempt_logs, 0755));
  point_latest_at(logs, name);
  return folder;
}

Status save_resolved_config(const RunFolder& folder, const config::TrainingConfig& config) {
  std::string resolved = config::resolved_training_config(config);
  std::string path = fmt::format("{}/configs/{}.json", folder.root, mode_name(config.mode));
  return os::posix_file_system().write_file_atomic(path, codec::as_bytes(resolved), 0644);
}

}  // namespace cairn::trainer
