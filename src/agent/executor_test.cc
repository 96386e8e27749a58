// The executor with the real kernel: overlay, bubblewrap, signals, kills. The executor is a process of its own (this program with
// "exec" as its first argument) against a server and volumes made of folders (test_world.h). Needs root and user-visible
// overlayfs; where the machine refuses them the tests say skipped, with the reason.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include <map>
#include <set>

#include <gtest/gtest.h>

#include "agent/agent.h"
#include "agent/sandbox.h"
#include "agent/test_world.h"
#include "base/random.h"
#include "os/host.h"
#include "os/mount.h"
#include "os/process.h"
#include "testing/temporary_folder.h"

namespace cairn::agent {
namespace {

using cairn::testing::TemporaryFolder;
using testing::read_number;
using testing::slurp;
using testing::spit;
namespace fs = testing::fs;

// Why this machine cannot run these tests; empty: it can.
std::string missing() {
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

TEST_F(ExecutorTest, RunsAndBringsEverythingHome) {
  volume("data", {{"in.txt", "input"}, {"old/gone", "x"}, {"old/stays", "y"}});
  assign("set -e; cat /volume/in.txt; cat /mnt/data/in.txt; rm /volume/old/gone; echo new > /volume/new; echo oops >&2; "
         "mkdir -p $CAIRN_OUTPUT_DIR/checkpoints/step_5/trainer; echo m > $CAIRN_OUTPUT_DIR/checkpoints/step_5/trainer/.metadata; "
         "printf 'no end'",
         {mount("data", true)});
  start_.config = "x = 1\n";
  start_.config_name = "sft.toml";
  start_.kind = api::RunKind::kTrain;
  start_.environment = {{"MINE", "1"}};
  spit(world_ / "start.json", api::to_json(start_));
  execute();
  EXPECT_EQ(finish()[0], "COMPLETED");
  EXPECT_EQ(finish()[1], "0");
  EXPECT_EQ(slurp(head("data/new")), "new\n");
  EXPECT_FALSE(fs::exists(head("data/old/gone")));
  EXPECT_TRUE(fs::exists(head("data/old/stays")));
  EXPECT_EQ(slurp(output("data", "logs/stdout.log")), "inputinputno end");
  EXPECT_EQ(slurp(output("data", "logs/stderr.log")), "oops\n");
  EXPECT_EQ(slurp(output("data", "configs/sft.toml")), "x = 1\n");
  std::string log = slurp(world_ / "log");
  EXPECT_NE(log.find("stdout: inputinputno end\n"), std::string::npos) << log;
  EXPECT_NE(log.find("stderr: oops\n"), std::string::npos);
  EXPECT_NE(log.find("cairn: 'data': published snapshot 1"), std::string::npos) << log;
  EXPECT_EQ(slurp(world_ / "states"), "CREATING\nRUNNING\nSYNCING\n");
  // Nothing is left but what the agent needs to see that it is over.
  EXPECT_FALSE(fs::exists(journal_ + "/m0"));
  EXPECT_EQ(Journal::peek(journal_)->phase, Phase::kFinished);
  EXPECT_EQ(Journal::peek(journal_)->saved_step, std::optional<uint64_t>(5));
}

// The trainer of a node is in its sandboxes; a training that needs it is refused where there is none, before anything is staged.
TEST_F(ExecutorTest, TheTrainerProgramIsLaidIn) {
  volume("data", {{"in.txt", "input"}});
  assign("unused", {mount("data", true)});
  start_.kind = api::RunKind::kTrain;
  start_.command = {"cairn-trainer", "/volume/in.txt", "--volume-root", "/volume"};
  start_.config = "x = 1\n";
  spit(world_ / "start.json", api::to_json(start_));
  execute();
  EXPECT_EQ(finish()[0], "FAILED");
  EXPECT_NE(finish()[3].find("has no cairn-trainer"), std::string::npos) << finish()[3];
  EXPECT_FALSE(fs::exists(world_ / "lowers")) << "staged for nothing";

  fs::remove(world_ / "finish");
  std::string program = world_ / "cairn-trainer";
  spit(program, "#!/bin/sh\necho trains \"$@\"; cat $1; test -w $0 || echo sealed\n");
  fs::permissions(program, fs::perms::owner_all);
  fs::remove_all(journal_);
  assign("unused", {mount("data", true)});
  start_.command = {"cairn-trainer", "/volume/in.txt", "--volume-root", "/volume"};
  spit(world_ / "start.json", api::to_json(start_));
  execute();
  EXPECT_EQ(finish()[0], "COMPLETED") << finish()[3];
  EXPECT_EQ(slurp(output("data", "logs/stdout.log")), "trains /volume/in.txt --volume-root /volume\ninputsealed\n");
}

TEST_F(ExecutorTest, ExitCodesPassThrough) {
  volume("data", {});
  assign("echo partial > /volume/partial; exit 42", {mount("data", true)});
  execute();
  EXPECT_EQ(finish()[0], "FAILED");
  EXPECT_EQ(finish()[1], "42");
  EXPECT_EQ(finish()[3], "the command ended with exit code 42");
  EXPECT_EQ(slurp(head("data/partial")), "partial\n");
}

TEST_F(ExecutorTest, KilledBySignalIsSaidAsAShellDoes) {
  volume("data", {});
  assign("kill -9 $$", {mount("data", true)});
  execute();
  EXPECT_EQ(finish()[1], "137");
}

TEST_F(ExecutorTest, StopDrains) {
  volume("data", {});
  assign("trap 'echo saved > /volume/saved; exit 0' TERM; echo ready; while :; do sleep 0.1; done", {mount("data", true)});
  os::Process process = spawn();
  wait_for_log("ready");
  spit(world_ / "stop", "");
  ASSERT_TRUE(process.wait(Deadline::after(seconds(60))));
  EXPECT_EQ(finish()[0], "STOPPED");
  EXPECT_EQ(finish()[1], "0");
  EXPECT_EQ(slurp(head("data/saved")), "saved\n");
}

// The shell of a pipeline dies of the signal at once; what it started saves, and says so through the rest of the pipeline.
TEST_F(ExecutorTest, AStopReachesWhatAShellStarted) {
  volume("data", {});
  assign("sh -c 'trap \"sleep 0.5; echo saving; echo saved > /volume/saved; exit 0\" TERM; echo ready; while :; do sleep 0.1; "
         "done' | tee /volume/log; echo more > /volume/more",
         {mount("data", true)});
  spit(world_ / "grace", "60");
  os::Process process = spawn();
  wait_for_log("ready");
  spit(world_ / "stop", "");
  ASSERT_TRUE(process.wait(Deadline::after(seconds(90))));
  EXPECT_EQ(finish()[0], "STOPPED");
  EXPECT_EQ(finish()[1], "143") << "the command's own end";
  EXPECT_EQ(slurp(head("data/saved")), "saved\n");
  EXPECT_EQ(slurp(head("data/log")), "ready\nsaving\n");
  EXPECT_FALSE(fs::exists(head("data/more")));
}

TEST_F(ExecutorTest, WhoHandlesAStopIsLeftToEndItsChildren) {
  if (!fs::exists("/usr/bin/python3")) GTEST_SKIP() << "SKIPPED: no /usr/bin/python3";
  volume("data", {});
  spit(world_ / "volumes/data/train.py",
       "import os, signal, subprocess, sys\n"
       "worker = subprocess.Popen(['sleep', '1000'])\n"
       "def stop(*_):\n"
       "    try:\n"
       "        worker.wait(0.5)\n"
       "    except subprocess.TimeoutExpired:\n"
       "        open('/volume/alive', 'w').write('the worker lives')\n"
       "    sys.exit(7)\n"
       "signal.signal(signal.SIGTERM, stop)\n"
       "print('ready', flush=True)\n"
       "while True:\n"
       "    signal.pause()\n");
  assign("python3 /volume/train.py; exit 3", {mount("data", true)});
  start_.command = {"/usr/bin/python3", "/volume/train.py"};
  spit(world_ / "start.json", api::to_json(start_));
  spit(world_ / "grace", "60");
  os::Process process = spawn();
  wait_for_log("ready");
  spit(world_ / "stop", "");
  ASSERT_TRUE(process.wait(Deadline::after(seconds(90))));
  EXPECT_EQ(finish()[1], "7");
  EXPECT_EQ(slurp(head("data/alive")), "the worker lives");
}

// Without a stop nothing changes: the run ends with its command.
TEST_F(ExecutorTest, ACommandThatEndsTakesWhatItLeftBehindWithIt) {
  volume("data", {});
  assign("(setsid sh -c 'while :; do sleep 0.1; : " + marker_ + "; done' &) ; echo over", {mount("data", true)});
  execute();
  EXPECT_EQ(finish()[0], "COMPLETED");
  EXPECT_EQ(processes_left(), 0);
}

TEST_F(ExecutorTest, WhatIgnoresTheStopIsKilledAndNothingSurvives) {
  volume("data", {});
  assign("trap '' TERM; echo kept > /volume/kept; (setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 0.1; : " + marker_ +
             "; done' &) ; echo ready; while :; do sleep 0.1; done",
         {mount("data", true)});
  os::Process process = spawn();
  wait_for_log("ready");
  EXPECT_GE(processes_left(), 1);
  spit(world_ / "stop", "");
  ASSERT_TRUE(process.wait(Deadline::after(seconds(60))));
  EXPECT_EQ(finish()[0], "STOPPED");
  EXPECT_EQ(finish()[1], "137");
  EXPECT_EQ(slurp(head("data/kept")), "kept\n");
  EXPECT_EQ(processes_left(), 0);
}

TEST_F(ExecutorTest, ASignalToTheExecutorDrainsToo) {
  volume("data", {});
  assign("trap 'echo saved > /volume/saved; exit 0' TERM; echo ready; while :; do sleep 0.1; done", {mount("data", true)});
  os::Process process = spawn();
  wait_for_log("ready");
  ASSERT_TRUE(process.kill(SIGTERM));
  ASSERT_TRUE(process.wait(Deadline::after(seconds(60))));
  EXPECT_EQ(finish()[0], "STOPPED");
  EXPECT_EQ(finish()[3], "the node's agent was stopped");
  EXPECT_EQ(slurp(head("data/saved")), "saved\n");
}

TEST_F(ExecutorTest, TheSandboxShowsNothingElse) {
  volume("data", {{"a", "1"}});
  volume("base", {{"w", "weights"}});
  volume("other", {{"secret", "s"}});
  assign(
      "fail() { echo \"FAIL $1\"; exit 1; }\n"
      "[ -e " + world_.path() + " ] && fail world\n"
      "find /proc /sys -xdev -maxdepth 3 -path '/proc/[0-9]*' -prune -o -path /proc/self -prune -o -path /proc/thread-self -prune "
      "-o -type f -writable -print 2>/dev/null | grep -v '^/proc/\\(keys\\|timer_list\\)$' | head -3 > /tmp/writable\n"
      "[ -s /tmp/writable ] && cat /tmp/writable && fail writable-proc\n"
      "[ -e /etc/shadow ] && fail shadow\n"
      "[ -e /etc/ssl/private ] && fail private-keys\n"
      "[ -e /root ] && fail root\n"
      "[ -e /mnt/other ] && fail other\n"
      "[ \"$(ls /mnt | tr '\\n' ' ')\" = 'base data ' ] || fail mnt\n"
      "grep -q '^CapEff:.0000000000000000' /proc/self/status || fail caps\n"
      "(echo x > /mnt/base/w) 2>/dev/null && fail base-writable\n"
      "(echo x > /usr/bin/x) 2>/dev/null && fail usr-writable\n"
      "v=$(cat /proc/sys/kernel/core_pattern); (echo \"$v\" > /proc/sys/kernel/core_pattern) 2>/dev/null && fail sysctl\n"
      "[ \"$(cat /mnt/base/w)\" = weights ] || fail base\n"
      "env | grep -qi secret && fail env\n"
      "[ \"$HOME\" = /home/cairn ] && echo h > $HOME/file || fail home\n"
      "case $PATH in /home/cairn/venv/bin:*) ;; *) fail path;; esac\n"
      "[ \"$(pwd)\" = /workspace ] || fail pwd\n"
      "[ \"$CAIRN_OUTPUT_DIR\" = /volume/runs/$CAIRN_RUN_ID ] || fail output\n"
      "[ $(ls /proc | grep -c '^[0-9]') -lt 20 ] || fail processes\n"
      "if [ -x /usr/bin/python3 ]; then python -c 'import sys; assert sys.prefix == \"/home/cairn/venv\", sys.prefix' || fail venv; fi\n"
      "echo fine\n",
      {mount("data", true), mount("base", false, true)});
  execute();
  EXPECT_EQ(finish()[0], "COMPLETED") << slurp(world_ / "log");
  EXPECT_NE(slurp(world_ / "log").find("stdout: fine"), std::string::npos) << slurp(world_ / "log");
}

TEST_F(ExecutorTest, AVolumeThatWouldBurstItsSizeEndsTheRun) {
  volume("data", {{"base", std::string(1 << 20, 'b')}});
  api::MountGrant small = mount("data", true);
  small.size_bytes = 4 << 20;
  assign("rm /volume/base; i=0; while [ $i -lt 100 ]; do dd if=/dev/zero of=/volume/f$i bs=1M count=1 2>/dev/null; i=$((i+1)); "
         "sleep 0.1; done",
         {small});
  execute();
  EXPECT_EQ(finish()[0], "FAILED");
  EXPECT_NE(finish()[3].find("no_space_left: volume 'data' is full: it would hold"), std::string::npos) << finish()[3];
  EXPECT_NE(finish()[3].find("cairn volumes expand data"), std::string::npos);
  // The base was removed, so it did not count.
  EXPECT_TRUE(fs::exists(head("data/f3")));
}

TEST_F(ExecutorTest, WhatIsWrittenElsewhereIsNamed) {
  volume("data", {});
  volume("ws", {{"train.py", "code"}});
  assign("echo lost > /workspace/result; mkdir /mnt/typo; echo 12345 > /mnt/typo/model; cat /workspace/train.py; echo t > /tmp/t; "
         "echo c > /volume/kept",
         {mount("data", true)});
  api::MountGrant workspace = mount("ws", false, true);
  workspace.directory = "/workspace";
  start_.workspace = workspace;
  spit(world_ / "start.json", api::to_json(start_));
  execute();
  std::vector<std::string> end = finish();
  EXPECT_EQ(end[2], "11");
  std::set<std::string> lost(end.begin() + 4, end.end());
  EXPECT_EQ(lost, (std::set<std::string>{"/workspace/result", "/mnt/typo/model"}));
  EXPECT_NE(slurp(world_ / "log").find("written outside the volumes and not kept: 11 bytes in 2 files: /mnt/typo/model /workspace/result"),
            std::string::npos)
      << slurp(world_ / "log");
  EXPECT_EQ(slurp(output("data", "logs/stdout.log")), "code");
  EXPECT_NE(slurp(output("data", "logs/cairn.log")).find("/mnt/typo/model"), std::string::npos);
}

TEST_F(ExecutorTest, WithoutAVolumeTheOutputIsKeptOnTheNode) {
  assign("[ ! -e /volume ] && echo r > $CAIRN_OUTPUT_DIR/result && echo done", {});
  execute();
  EXPECT_EQ(finish()[0], "COMPLETED");
  EXPECT_EQ(slurp(world_ / ("outputs/" + start_.run.hex() + "/result")), "r\n");
  EXPECT_EQ(slurp(world_ / ("outputs/" + start_.run.hex() + "/logs/stdout.log")), "done\n");
}

TEST_F(ExecutorTest, TheEndIsReportedWhenTheServerHasTheWholeLog) {
  assign("echo ready; while [ ! -e $CAIRN_OUTPUT_DIR/go ]; do sleep 0.1; done; echo last", {});
  os::Process process = spawn();
  wait_for_log("ready");
  spit(world_ / "heartbeats_fail", "");
  spit(world_ / ("outputs/" + start_.run.hex() + "/go"), "");
  wait_until([&] { return Journal::peek(journal_)->phase == Phase::kSynced; });
  // A few more that fail: long enough for an executor that waits only once to have reported.
  int64_t failed = read_number(world_ / "heartbeats_failed");
  wait_until([&] { return read_number(world_ / "heartbeats_failed") >= failed + 4; });
  EXPECT_FALSE(fs::exists(world_ / "finish"));
  fs::remove(world_ / "heartbeats_fail");
  ASSERT_TRUE(process.wait(Deadline::after(seconds(60))));
  EXPECT_EQ(finish()[0], "COMPLETED");
  EXPECT_NE(slurp(world_ / "log").find("stdout: last\n"), std::string::npos);
}

TEST_F(ExecutorTest, AStagingThatFailsNamesItsErrorAndRunsNothing) {
  volume("data", {});
  assign("echo ran > /volume/ran", {mount("data", true)});
  spit(world_ / "stage_fails", "");
  execute();
  EXPECT_EQ(finish()[0], "FAILED");
  EXPECT_EQ(finish()[1], "-");
  EXPECT_EQ(finish()[3], "volume_sync_incomplete: while staging 'data': 2 of 3 files arrived");
  EXPECT_EQ(read_number(head("data.count")), 0);
}

TEST_F(ExecutorTest, ARunThatWasStoppedMeanwhileDoesNotStart) {
  assign("true", {});
  spit(world_ / "refuse", "");
  execute();
  EXPECT_EQ(finish()[0], "STOPPED");
  EXPECT_EQ(Journal::peek(journal_)->phase, Phase::kFinished);
}

TEST_F(ExecutorTest, AServerThatIsAwayDelaysThePublicationOnly) {
  volume("data", {});
  assign("echo x > /volume/x", {mount("data", true)});
  spit(world_ / "sync_fails_once", "");
  execute();
  EXPECT_EQ(finish()[0], "COMPLETED");
  EXPECT_EQ(slurp(head("data/x")), "x\n");
}

TEST_F(ExecutorTest, WithoutTheRightToMountVolumesAreCopied) {
  const std::vector<std::string> nobody = {"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"};
  os::SpawnOptions probe;
  probe.argv = nobody;
  for (const char* word : {"bwrap", "--unshare-pid", "--ro-bind", "/", "/", "--", self_.c_str(), "--gtest_list_tests"}) {
    probe.argv.emplace_back(word);
  }
  auto probed = os::run_command(probe, Deadline::after(seconds(30)));
  if (!probed || !probed->status.success()) GTEST_SKIP() << "SKIPPED: who is not root can make no sandbox here";
  volume("data", {{"in.txt", "input"}, {"gone", "x"}});
  assign("cat /volume/in.txt; rm /volume/gone; echo new > /volume/new", {mount("data", true)});
  fs::permissions(world_.path(), fs::perms::owner_all);
  ASSERT_EQ(::chown(world_.path().c_str(), 65534, 65534), 0);
  for (const auto& entry : fs::recursive_directory_iterator(world_.path())) {
    ASSERT_EQ(::lchown(entry.path().c_str(), 65534, 65534), 0);
  }
  os::Process process = spawn("", nobody);
  auto status = process.wait(Deadline::after(seconds(60)));
  ASSERT_TRUE(status && status->success()) << slurp(world_ / "executor.err");
  EXPECT_EQ(finish()[0], "COMPLETED") << finish()[3];
  EXPECT_EQ(Journal::peek(journal_)->plain_copy[0], true);
  EXPECT_EQ(slurp(head("data/new")), "new\n");
  EXPECT_FALSE(fs::exists(head("data/gone")));
  EXPECT_EQ(slurp(output("data", "logs/stdout.log")), "input");
}

TEST_F(ExecutorTest, AFileThatCannotBeReadDoesNotHideWhatWasPublished) {
  volume("data", {});
  assign("echo x > /volume/x", {mount("data", true)});
  spit(world_ / "unreadable", "bad");
  execute();
  EXPECT_EQ(finish()[0], "COMPLETED");
  JournalState state = *Journal::peek(journal_);
  EXPECT_EQ(state.snapshot, 1u);
  EXPECT_TRUE(state.keep);
  std::string log = slurp(world_ / "log");
  EXPECT_NE(log.find("'data': published snapshot 1"), std::string::npos) << log;
  EXPECT_NE(log.find("1 files of 'data' could not be saved"), std::string::npos) << log;
}

TEST_F(ExecutorTest, LogFilesThatTheRunRemovedAreWrittenAgain) {
  volume("data", {});
  assign("echo one; rm $CAIRN_OUTPUT_DIR/logs/stdout.log; ln -s /etc/passwd $CAIRN_OUTPUT_DIR/logs/stdout.log; echo two",
         {mount("data", true)});
  execute();
  EXPECT_EQ(slurp(output("data", "logs/stdout.log")), "one\ntwo\n");
  EXPECT_FALSE(fs::is_symlink(output("data", "logs/stdout.log")));
}

// The executor works outside the sandbox, with the node's rights.
TEST_F(ExecutorTest, ALinkInPlaceOfTheOutputFolderIsNotFollowed) {
  volume("data", {});
  fs::create_directories(world_ / "host/logs");
  spit(world_ / "host/logs/stderr.log", "");
  spit(world_ / "host/logs/stdout.log", "theirs");
  assign("echo one; mv $CAIRN_OUTPUT_DIR /volume/moved; ln -s " + (world_ / "host") + " $CAIRN_OUTPUT_DIR",
         {mount("data", true)});
  execute();
  EXPECT_EQ(finish()[0], "COMPLETED");
  EXPECT_EQ(slurp(world_ / "host/logs/stdout.log"), "theirs");
  EXPECT_TRUE(fs::exists(world_ / "host/logs/stderr.log"));
  EXPECT_FALSE(fs::exists(world_ / "host/logs/cairn.log"));
  EXPECT_TRUE(fs::is_symlink(head("data/runs/" + start_.run.hex())));
  EXPECT_EQ(slurp(head("data/moved/logs/stdout.log")), "one\n");
}

// Whatever the run put in the place of its output folder, an executor that comes after a kill brings its work home.
TEST_F(ExecutorTest, AReplacedOutputFolderDoesNotStopTheRecovery) {
  for (const char* replacement : {"ln -s /volume/other $CAIRN_OUTPUT_DIR", "echo mine > $CAIRN_OUTPUT_DIR",
                                  "mkdir $CAIRN_OUTPUT_DIR; echo mine > $CAIRN_OUTPUT_DIR/logs",
                                  "mkdir $CAIRN_OUTPUT_DIR; ln -s /volume $CAIRN_OUTPUT_DIR/configs"}) {
    SCOPED_TRACE(replacement);
    for (const auto& entry : fs::directory_iterator(world_.path())) fs::remove_all(entry.path());
    volume("data", {});
    assign(std::string("echo w > /volume/written; rm -r $CAIRN_OUTPUT_DIR; ") + replacement + "; echo ready; sleep 60",
           {mount("data", true)});
    os::Process process = spawn();
    wait_for_log("ready");
    ASSERT_TRUE(process.kill(SIGKILL));
    ASSERT_TRUE(process.wait(Deadline::after(seconds(30))));
    execute();
    EXPECT_EQ(finish()[0], "FAILED");
    EXPECT_EQ(slurp(head("data/written")), "w\n");
  }
}

// A program that writes numbered files and says which it has written: after whatever kills, what it said is there, whole.
std::string counting_script(const std::string& marker, int count) {
  return ": " + marker + "; i=0; while [ $i -lt " + std::to_string(count) +
         " ]; do echo \"content $i\" > /volume/f$i; echo wrote $i; i=$((i+1)); sleep 0.01; done";
}

void check_counted(const std::string& log, const std::string& head_dir) {
  int last = -1;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("stdout: wrote ", 0) != 0) continue;
    EXPECT_EQ(std::stoi(line.substr(14)), last + 1) << "lines are numbered without gap or repetition";
    last = std::stoi(line.substr(14));
  }
  for (int i = 0; i <= last; ++i) {
    EXPECT_EQ(slurp(head_dir + "/f" + std::to_string(i)), "content " + std::to_string(i) + "\n") << i << " of " << last;
  }
  EXPECT_TRUE(fs::exists(head_dir + "/base"));
}

TEST_F(ExecutorTest, KilledAtEveryStepNothingIsLost) {
  for (const char* step : {"start", "started", "stage", "staged", "running", "exited", "sync", "published", "finish", "finished", "over"}) {
    SCOPED_TRACE(step);
    for (const auto& entry : fs::directory_iterator(world_.path())) fs::remove_all(entry.path());
    volume("data", {{"base", "b"}});
    assign(counting_script(marker_, 20), {mount("data", true)});
    os::Process first = spawn(step);
    auto killed = first.wait(Deadline::after(seconds(60)));
    ASSERT_TRUE(killed);
    EXPECT_EQ(killed->signal, SIGKILL) << slurp(world_ / "executor.err");
    execute();
    EXPECT_EQ(processes_left(), 0);
    bool lived = std::string(step) == "running";
    EXPECT_EQ(finish()[0], lived ? "FAILED" : "COMPLETED");
    if (lived) {
      EXPECT_EQ(finish()[3], "its executor was killed while the run was running");
    }
    check_counted(slurp(world_ / "log"), head("data"));
    EXPECT_EQ(Journal::peek(journal_)->phase, Phase::kFinished);
    EXPECT_FALSE(fs::exists(journal_ + "/m0"));
  }
}

TEST_F(ExecutorTest, NothingIsKeptForAJournalThatIsOver) {
  volume("data", {{"base", "b"}});
  assign("true", {mount("data", true)});
  os::Process process = spawn("over");
  auto killed = process.wait(Deadline::after(seconds(60)));
  ASSERT_TRUE(killed);
  EXPECT_EQ(killed->signal, SIGKILL);
  EXPECT_EQ(Journal::peek(journal_)->phase, Phase::kFinished);
  EXPECT_FALSE(fs::exists(world_ / "kept"));
}

TEST_F(ExecutorTest, KilledAtRandomMomentsAndAgainNothingIsLost) {
  uint64_t seed = system_random().next_u64();
  if (const char* given = std::getenv("CAIRN_TEST_SEED")) seed = std::stoull(given);
  RecordProperty("seed", std::to_string(seed));
  SeededRandom random(seed);
  for (int round = 0; round < 12; ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed) + " round " + std::to_string(round));
    for (const auto& entry : fs::directory_iterator(world_.path())) fs::remove_all(entry.path());
    volume("data", {{"base", "b"}});
    assign(counting_script(marker_, 60), {mount("data", true)});
    for (int kills = 0; kills < 3; ++kills) {
      os::Process process = spawn();
      system_clock().sleep_for(milliseconds(static_cast<int64_t>(random.below(900))));
      ASSERT_TRUE(process.kill(SIGKILL));
      ASSERT_TRUE(process.wait(Deadline::after(seconds(30))));
    }
    execute();
    EXPECT_EQ(processes_left(), 0);
    check_counted(slurp(world_ / "log"), head("data"));
    EXPECT_EQ(Journal::peek(journal_)->phase, Phase::kFinished);
  }
}

// Found by the test above: the inner half of a sandbox whose executor was killed while bubblewrap started it.
TEST_F(ExecutorTest, AHalfMadeSandboxThatNoJournalKnowsIsEnded) {
  auto hold = os::make_pipe();
  ASSERT_TRUE(hold);
  fs::create_directories(world_ / "attempt/root");
  fs::create_directories(world_ / "attempt2/root");
  auto half_made = [&](const std::string& folder) {
    os::SpawnOptions options;
    options.argv = {"bwrap", "--ro-bind", "/", "/", "--bind", folder + "/root", "/mnt", "--block-fd", "5", "--", "/bin/true"};
    options.extra_fds = {{hold->read_end.get(), 5}};
    return os::Process::spawn(options);
  };
  auto ours = half_made(world_ / "attempt");
  auto other = half_made(world_ / "attempt2");
  ASSERT_TRUE(ours && other);
  system_clock().sleep_for(milliseconds(200));
  ASSERT_TRUE(end_leftover_sandboxes(world_ / "attempt", Deadline::after(seconds(10))));
  auto ended = ours->wait(Deadline::after(seconds(10)));
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->signal, SIGKILL);
  EXPECT_EQ(*other->try_wait(), std::nullopt);
}

TEST_F(ExecutorTest, AfterARebootTheServerHearsOfItBeforeAnythingIsPublished) {
  volume("data", {{"base", "b"}});
  assign("echo w > /volume/written; echo ready; sleep 60", {mount("data", true)});
  os::Process process = spawn();
  wait_for_log("ready");
  ASSERT_TRUE(process.kill(SIGKILL));
  ASSERT_TRUE(process.wait(Deadline::after(seconds(30))));
  EXPECT_TRUE(fs::exists(world_ / "kept"));  // the lower waits for the upper
  JournalState state = *Journal::peek(journal_);
  state.boot_id = "another boot";
  spit(journal_ + "/state", format_state(state));
  execute();
  EXPECT_TRUE(fs::exists(world_ / "rebooted"));
  EXPECT_EQ(finish()[3], "the node was restarted while the run was running");
  EXPECT_EQ(slurp(head("data/written")), "w\n");
  EXPECT_FALSE(fs::exists(world_ / "kept"));
}

TEST_F(ExecutorTest, LinesWrittenAfterAPowerLossFollowThoseTheServerHas) {
  volume("data", {{"base", "b"}});
  assign("echo one; echo two; echo three; sleep 60", {mount("data", true)});
  os::Process process = spawn();
  wait_for_log("three");
  ASSERT_TRUE(process.kill(SIGKILL));
  ASSERT_TRUE(process.wait(Deadline::after(seconds(30))));
  JournalState state = *Journal::peek(journal_);
  state.boot_id = "another boot";
  spit(journal_ + "/state", format_state(state));
  fs::resize_file(journal_ + "/lines", 0);
  execute();
  std::string log = slurp(world_ / "log");
  EXPECT_EQ(log.find("stdout: one\nstdout: two\nstdout: three\ncairn: the node was restarted while the run was running"), 0u) << log;
}

TEST_F(ExecutorTest, AfterARebootWhilePublishingTheServerHearsOfItFirst) {
  volume("data", {{"base", "b"}});
  assign("echo w > /volume/written", {mount("data", true)});
  os::Process process = spawn("sync");
  ASSERT_TRUE(process.wait(Deadline::after(seconds(60))));
  JournalState state = *Journal::peek(journal_);
  ASSERT_EQ(state.phase, Phase::kExited);
  state.boot_id = "another boot";
  spit(journal_ + "/state", format_state(state));
  execute();
  EXPECT_TRUE(fs::exists(world_ / "rebooted"));
  EXPECT_EQ(finish()[0], "COMPLETED");
  EXPECT_EQ(slurp(head("data/written")), "w\n");
}

class AgentTest : public ExecutorTest {
 protected:
  AgentSettings settings() {
    AgentSettings settings;
    settings.name = "n1";
    settings.state_dir = world_ / "state";
    settings.executor_command = {self_, "exec", world_.path()};
    settings.retry_pause_min = milliseconds(50);
    settings.retry_pause_max = milliseconds(200);
    return settings;
  }
  void offer() { spit(world_ / "assignment.json", api::to_json(assignment_)); }
};

TEST_F(AgentTest, ExecutorsOutliveTheAgentAndAreTakenUpAgain) {
  volume("data", {{"base", "b"}});
  assign("echo ready; while [ ! -e /volume/go ]; do sleep 0.1; [ -e /volume/runs/$CAIRN_RUN_ID/x ]; i=$((i+1)); [ $i -gt 30 ] && break; done; echo over > /volume/over",
         {mount("data", true)});
  offer();
  testing::FolderServer server(world_.path());
  {
    CancelToken cancel;
    Agent agent(server, system_clock(), settings());
    std::thread thread([&] { EXPECT_TRUE(agent.run(cancel)); });
    wait_for_log("ready");
    cancel.cancel();
    thread.join();
  }
  std::string dir = attempts_dir(settings().state_dir) + "/" + assignment_.attempt.hex();
  EXPECT_TRUE(Journal::in_use(dir));
  CancelToken cancel;
  Agent agent(server, system_clock(), settings());
  std::thread thread([&] { EXPECT_TRUE(agent.run(cancel)); });
  wait_until([&] { return fs::exists(world_ / "finish") && !fs::exists(dir); });
  cancel.cancel();
  thread.join();
  EXPECT_EQ(finish()[0], "COMPLETED") << slurp(world_ / "log");
  EXPECT_EQ(slurp(head("data/over")), "over\n");
  EXPECT_EQ(read_number(world_ / "starts"), 1);
}

TEST_F(AgentTest, AKilledExecutorIsStartedAgainToRecover) {
  volume("data", {{"base", "b"}});
  assign("echo w > /volume/written; echo ready; sleep 60", {mount("data", true)});
  offer();
  testing::FolderServer server(world_.path());
  CancelToken cancel;
  Agent agent(server, system_clock(), settings());
  std::thread thread([&] { EXPECT_TRUE(agent.run(cancel)); });
  wait_for_log("ready");
  std::string dir = attempts_dir(settings().state_dir) + "/" + assignment_.attempt.hex();
  std::string note = os::lock_note(dir + "/lock");
  pid_t pid = std::stoi(note.substr(note.find("pid ") + 4));
  ASSERT_GT(pid, 1);
  ::kill(pid, SIGKILL);
  wait_until([&] { return fs::exists(world_ / "finish") && !fs::exists(dir); });
  cancel.cancel();
  thread.join();
  EXPECT_EQ(finish()[0], "FAILED");
  EXPECT_EQ(slurp(head("data/written")), "w\n");
}

TEST_F(AgentTest, AnAttemptThatNoExecutorCanStartFailsAndSaysWhy) {
  volume("data", {});
  struct Case {
    std::vector<std::string> command;
    std::string reason;
  };
  const std::vector<Case> cases = {
      {{"/bin/sh", "-c", "echo 'file_not_found: agent.toml' > $2/error; exit 1", "sh"}, "file_not_found: agent.toml"},
      {{"/no/such/program"}, "/no/such/program"},
      {{"/bin/false"}, "the agent's log there may say why"},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.reason);
    for (const auto& entry : fs::directory_iterator(world_.path())) fs::remove_all(entry.path());
    assign("true", {});
    offer();
    testing::FolderServer server(world_.path());
    AgentSettings broken = settings();
    broken.executor_command = one.command;
    CancelToken cancel;
    Agent agent(server, system_clock(), broken);
    std::thread thread([&] { EXPECT_TRUE(agent.run(cancel)); });
    std::string dir = attempts_dir(broken.state_dir) + "/" + assignment_.attempt.hex();
    wait_until([&] { return fs::exists(world_ / "finish") && !fs::exists(dir); });
    cancel.cancel();
    thread.join();
    EXPECT_EQ(finish()[0], "FAILED");
    EXPECT_EQ(finish()[3].find("its executor could not start on node n1: "), 0u) << finish()[3];
    EXPECT_NE(finish()[3].find(one.reason), std::string::npos) << finish()[3];
  }
}

TEST_F(AgentTest, StoppingTheAgentWithADrainBringsRunsHome) {
  volume("data", {{"base", "b"}});
  assign("trap 'echo saved > /volume/saved; exit 0' TERM; echo ready; while :; do sleep 0.1; done", {mount("data", true)});
  offer();
  testing::FolderServer server(world_.path());
  CancelToken cancel;
  AgentSettings with_drain = settings();
  with_drain.drain_on_stop = true;
  Agent agent(server, system_clock(), with_drain);
  std::thread thread([&] { EXPECT_TRUE(agent.run(cancel)); });
  wait_for_log("ready");
  cancel.cancel();
  thread.join();
  EXPECT_EQ(finish()[0], "STOPPED");
  EXPECT_EQ(slurp(head("data/saved")), "saved\n");
}

CancelToken* g_cancel = nullptr;

}  // namespace

// exec WORLD --journal DIR
int executor_main(const std::string& world, const std::string& journal) {
  static CancelToken cancel;
  g_cancel = &cancel;
  ::signal(SIGTERM, [](int) { g_cancel->cancel(); });
  testing::FolderServer server(world);
  testing::FolderVolumes volumes(world);
  Executor executor(server, volumes, system_clock(), testing::world_settings(world));
  const char* kill_at = std::getenv("CAIRN_KILL_AT");
  executor.set_step_hook([kill_at](std::string_view step) {
    if (kill_at != nullptr && step == kill_at) ::kill(::getpid(), SIGKILL);
  });
  auto report = executor.execute(journal, cancel);
  if (!report) {
    std::fprintf(stderr, "%s\n", report.error().to_string().c_str());
    return 1;
  }
  return 0;
}

}  // namespace cairn::agent

int main(int argc, char** argv) {
  if (argc == 5 && std::string(argv[1]) == "exec") return cairn::agent::executor_main(argv[2], argv[4]);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
