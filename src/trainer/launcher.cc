#include "trainer/launcher.h"

#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include <fmt/format.h>

#include "base/whole_number.h"
#include "os/file_system.h"
#include "os/process.h"

namespace cairn::trainer {
namespace {

constexpr const char* kRank = "CAIRN_TRAINER_RANK";
constexpr const char* kSize = "CAIRN_TRAINER_PROCESSES";
constexpr const char* kStore = "CAIRN_TRAINER_MEETING";
constexpr int kProcessesMax = 1024;
constexpr milliseconds kPollInterval{200};   // between looks at the stop request
constexpr seconds kEndGrace{5};              // for the others once one has failed: to say why, then to end

// The file through which the processes meet, in a folder that goes with this object.
class MeetingFile {
 public:
  static Result<MeetingFile> make() {
    const char* base = std::getenv("TMPDIR");
    std::string folder = std::string(base != nullptr && *base != 0 ? base : "/tmp") + "/cairn-trainer-XXXXXX";
    if (mkdtemp(folder.data()) == nullptr) return Error::from_errno(errno, folder);
    return MeetingFile(std::move(folder));
  }
  explicit MeetingFile(std::string folder) : folder_(std::move(folder)) {}
  MeetingFile(MeetingFile&& other) noexcept : folder_(std::exchange(other.folder_, {})) {}
  ~MeetingFile() {
    if (folder_.empty()) return;
    ::unlink(path().c_str());
    ::rmdir(folder_.c_str());
  }
  std::string path() const { return folder_ + "/meeting"; }

 private:
  std::string folder_;
};

std::vector<std::string> environment_of(int rank, int count, const std::string& meeting) {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (std::string_view(*entry).starts_with("CAIRN_TRAINER_")) continue;
    environment.emplace_back(*entry);
  }
  environment.push_back(fmt::format("{}={}", kRank, rank));
  environment.push_back(fmt::format("{}={}", kSize, count));
  environment.push_back(fmt::format("{}={}", kStore, meeting));
  return environment;
}

// A group of its own for each: a signal to the parent's group must not reach them twice.
Result<std::vector<os::Process>> start_all(const std::vector<std::string>& argv, int count, const std::string& meeting) {
  std::vector<os::Process> processes;
  for (int rank = 0; rank < count; ++rank) {
    os::SpawnOptions options;
    options.argv = argv;
    options.env = environment_of(rank, count, meeting);
    options.new_process_group = true;
    options.death_signal = SIGKILL;
    CAIRN_TRY(os::Process process, os::Process::spawn(options));
    processes.push_back(std::move(process));
  }
  return processes;
}

void wait_for_news(const std::vector<os::Process>& processes) {
  std::vector<pollfd> wanted;
  for (const os::Process& process : processes) {
    if (process.running()) wanted.push_back(pollfd{process.pidfd(), POLLIN, 0});
  }
  ::poll(wanted.data(), wanted.size(), static_cast<int>(kPollInterval.count()));
}

void end_all(std::vector<os::Process>& processes, Duration grace) {
  for (os::Process& process : processes) {
    if (process.running()) static_cast<void>(process.kill_group(SIGTERM).has_value());
  }
  Deadline until = Deadline::after(grace);
  for (os::Process& process : processes) {
    if (process.running() && !process.wait(until)) static_cast<void>(process.kill_group(SIGKILL).has_value());
  }
  for (os::Process& process : processes) {
    if (process.running()) static_cast<void>(process.wait(Deadline::never()).has_value());
  }
}

struct Failure {
  size_t rank = 0;
  os::ExitStatus status;

  bool of_itself() const {
    if (status.signal != 0) return true;
    return status.code != exit_code(Code::kIoError) && status.code != exit_code(Code::kDeadlineExceeded);
  }
};

// The first that failed of itself: a process whose partner is gone fails with one of two codes soon after.
const Failure& cause_of(const std::vector<Failure>& failures) {
  for (const Failure& failure : failures) {
    if (failure.of_itself()) return failure;
  }
  return failures.front();
}

std::optional<int> number(const char* text, int max) {
  if (text == nullptr) return std::nullopt;
  std::optional<int> value = whole_number<int>(text);
  return value && *value <= max ? value : std::nullopt;
}

}  // namespace

Result<std::optional<Membership>> membership_from_environment() {
  if (std::getenv(kRank) == nullptr) return std::optional<Membership>();
  std::optional<int> rank = number(std::getenv(kRank), kProcessesMax);
  std::optional<int> size = number(std::getenv(kSize), kProcessesMax);
  const char* store = std::getenv(kStore);
  if (!rank || !size || *size < 1 || *rank >= *size || store == nullptr) {
    return Error(Code::kDataInvalid, fmt::format("{}, {} and {} do not fit each other", kRank, kSize, kStore),
                 "they are set by cairn-trainer for the processes it starts; unset them");
  }
  Membership membership;
  membership.rank = *rank;
  membership.size = *size;
  membership.store = store;
  return std::optional<Membership>(membership);
}

Result<int> run_processes(const std::vector<std::string>& argv, int count, StopRequest& stop, RunLog& log) {
  CAIRN_TRY(MeetingFile meeting, MeetingFile::make());
  CAIRN_TRY(std::vector<os::Process> processes, start_all(argv, count, meeting.path()));
  bool told_to_stop = false;
  size_t living = processes.size();
  int stopped_code = 0;
  std::vector<Failure> failures;
  Deadline hear_others_until = Deadline::never();
  while (living > 0) {
    wait_for_news(processes);
    if (stop.requested() && !told_to_stop) {
      told_to_stop = true;
      for (os::Process& process : processes) {
        if (process.running()) static_cast<void>(process.kill_group(SIGTERM).has_value());
      }
    }
    for (size_t rank = 0; rank < processes.size(); ++rank) {
      if (!processes[rank].running()) continue;
      CAIRN_TRY(std::optional<os::ExitStatus> status, processes[rank].try_wait());
      if (!status) continue;
      --living;
      if (status->success()) continue;
      if (told_to_stop && status->signal == 0 && status->code == kExitStopped) {
        stopped_code = kExitStopped;
        continue;
      }
      // It had no handler yet: training has not begun, and the others would wait for it.
      if (told_to_stop && status->signal == SIGTERM) {
        log.warning("stopped on request before training began");
        end_all(processes, kEndGrace);
        return kExitStopped;
      }
      if (failures.empty()) hear_others_until = Deadline::after(kEndGrace);
      failures.push_back({rank, *status});
    }
    if (failures.empty()) continue;
    const Failure& cause = cause_of(failures);
    if (!cause.of_itself() && living > 0 && !hear_others_until.expired()) continue;
    log.error(fmt::format("process {} of {} failed: {}; the others are ended", cause.rank, processes.size(), cause.status.to_string()));
    end_all(processes, kEndGrace);
    return cause.status.shell_code();
  }
  return stopped_code;
}

}  // namespace cairn::trainer
