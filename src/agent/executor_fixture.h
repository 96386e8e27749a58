// The executor with the real kernel: overlay, bubblewrap, signals, kills. The executor is a process of its own (the test program with
// "exec" as its first argument) against a server and volumes made of folders (test_world.h). Needs root and user-visible
// overlayfs; where the machine refuses them the tests say skipped, with the reason.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include <map>

#include <gtest/gtest.h>

#include "agent/sandbox.h"
#include "agent/test_world.h"
#include "base/random.h"
#include "os/host.h"
#include "os/mount.h"
#include "os/process.h"
#include "testing/temporary_folder.h"

namespace cairn::agent {

using cairn::testing::TemporaryFolder;
using testing::read_number;
using testing::slurp;
using testing::spit;
namespace fs = testing::fs;

// Why this machine cannot run these tests; empty: it can.
inline std::string missing() {
  if (::geteuid() != 0) return "not root";
  Status sandbox = check_sandbox();
  if (!sandbox) return sandbox.error().to_string();
  TemporaryFolder folder;
  for (const char* name : {"lower", "upper", "work", "merged"}) fs::create_directories(folder / name);
  pid_t child = ::fork();
  if (child == 0) {
    os::OverlaySpec spec;
    spec.lowers = {folder / "lower"};
    spec.upper = folder / "upper";
    spec.work = folder / "work";
    spec.target = folder / "merged";
    bool fine = os::enter_mount_namespace() && os::mount_overlay(spec);
    ::_exit(fine ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0 ? "" : "the kernel refuses overlay mounts here";
}

class ExecutorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    static const std::string kMissing = missing();
    if (!kMissing.empty()) GTEST_SKIP() << "SKIPPED: " << kMissing;
    self_ = *os::executable_path();
    fs::create_directories(world_ / "volumes");
  }

  void volume(const std::string& name, const std::map<std::string, std::string>& files) {
    fs::create_directories(world_ / ("volumes/" + name));
    for (const auto& [path, text] : files) {
      fs::path file = world_ / ("volumes/" + name + "/" + path);
      fs::create_directories(file.parent_path());
      std::ofstream(file) << text;
    }
  }

  api::MountGrant mount(const std::string& name, bool primary, bool read_only = false) {
    api::MountGrant grant;
    grant.volume = name;
    grant.volume_id = VolumeId::random(system_random());
    grant.directory = primary ? "/volume" : "/mnt/" + name;
    grant.primary = primary;
    grant.read_only = read_only;
    grant.size_bytes = uint64_t{1} << 40;
    grant.base.root = std::string(64, '0');
    if (!read_only) {
      api::Upload upload;
      upload.secret = "lease-secret";
      upload.base.root = grant.base.root;
      grant.upload = upload;
    }
    return grant;
  }

  // Writes down what the server will say, and the journal.
  void assign(const std::string& script, std::vector<api::MountGrant> mounts) {
    start_.run = RunId::random(system_random());
    start_.attempt = AttemptId::random(system_random());
    start_.number = 1;
    start_.command = {"/bin/sh", "-c", script};
    start_.output_directory = "runs/" + start_.run.hex();
    start_.mounts = std::move(mounts);
    start_.grace_seconds = 1;
    start_.heartbeat_seconds = 1;
    spit(world_ / "start.json", api::to_json(start_));
    assignment_.run = start_.run;
    assignment_.attempt = start_.attempt;
    assignment_.secret = "attempt-secret";
    journal_ = world_ / "journal";
    ASSERT_TRUE(Journal::create(journal_, assignment_));
  }

  os::Process spawn(const std::string& kill_at = "", const std::vector<std::string>& through = {}) {
    os::SpawnOptions options;
    options.argv = through;
    options.argv.insert(options.argv.end(), {self_, "exec", world_.path(), "--journal", journal_});
    options.env = std::vector<std::string>{"PATH=/usr/bin:/bin:/usr/sbin:/sbin", "CAIRN_KILL_AT=" + kill_at,
                                           "ASAN_OPTIONS=detect_leaks=0"};
    options.new_session = true;
    options.stderr_fd = ::open((world_ / "executor.err").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    auto process = os::Process::spawn(options);
    ::close(options.stderr_fd);
    EXPECT_TRUE(process) << process.error().to_string();
    return *std::move(process);
  }

  // Runs the executor to its end.
  int execute() {
    os::Process process = spawn();
    auto status = process.wait(Deadline::after(seconds(120)));
    EXPECT_TRUE(status) << status.error().to_string() << slurp(world_ / "executor.err");
    if (status && status->shell_code() != 0) ADD_FAILURE() << status->to_string() << "\n" << slurp(world_ / "executor.err");
    return status ? status->shell_code() : -1;
  }

  // Whoever opens the journal next finds that the machine was started again since.
  JournalState reboot() {
    JournalState state = *Journal::peek(journal_);
    state.boot_id = "another boot";
    spit(journal_ + "/state", format_state(state));
    return state;
  }

  void wait_for_log(const std::string& text) {
    for (int i = 0; i < 600; ++i) {
      if (slurp(world_ / "log").find(text) != std::string::npos) return;
      system_clock().sleep_for(milliseconds(50));
    }
    FAIL() << "never said: " << text << "\n" << slurp(world_ / "log") << slurp(world_ / "executor.err");
  }

  void wait_until(const std::function<bool()>& done) {
    for (int i = 0; i < 1200 && !done(); ++i) system_clock().sleep_for(milliseconds(50));
    ASSERT_TRUE(done());
  }

  std::vector<std::string> finish() {
    std::vector<std::string> lines;
    std::istringstream text(slurp(world_ / "finish"));
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    lines.resize(std::max<size_t>(lines.size(), 4));
    return lines;
  }
  std::string head(const std::string& path) { return world_ / ("volumes/" + path); }
  std::string output(const std::string& volume_name, const std::string& path) {
    return head(volume_name + "/runs/" + start_.run.hex() + "/" + path);
  }

  // Processes whose command line holds the run's id (every test's script does).
  int processes_left() {
    int count = 0;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      std::string pid = entry.path().filename();
      if (pid.find_first_not_of("0123456789") != std::string::npos || std::stol(pid) == ::getpid()) continue;
      std::string command = slurp("/proc/" + pid + "/cmdline");
      if (command.find(marker_) != std::string::npos && command.find("exec") == std::string::npos) ++count;
    }
    return count;
  }

  TemporaryFolder world_;
  std::string self_;
  std::string journal_;
  std::string marker_ = "marker_" + RunId::random(system_random()).hex();
  api::AttemptStart start_;
  api::Assignment assignment_;
};

}  // namespace cairn::agent
