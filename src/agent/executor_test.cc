// What a run sees and leaves, and how it ends: the executor from assignment to report (executor_fixture.h). Holds the program's main.
#include <set>

#include "agent/executor_fixture.h"

namespace cairn::agent {
namespace {

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
  spit(world_ / "decoy", "theirs");
  assign("echo one; rm $CAIRN_OUTPUT_DIR/logs/stdout.log; ln -s " + (world_ / "decoy") + " $CAIRN_OUTPUT_DIR/logs/stdout.log; echo two",
         {mount("data", true)});
  execute();
  EXPECT_EQ(slurp(world_ / "decoy"), "theirs");
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
