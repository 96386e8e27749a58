// Children: what they inherit, how they end, and that nothing of them is left.
#include "os/process.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <thread>

#include <gtest/gtest.h>

#include "os/file_system.h"
#include "os/host.h"
#include "os/lock_file.h"
#include "testing/temporary_folder.h"

namespace cairn::os {
namespace {

SpawnOptions shell(const std::string& script) {
  SpawnOptions options;
  options.argv = {"sh", "-c", script};
  return options;
}
Deadline soon() {
  return Deadline::after(seconds(20));
}

TEST(RunCommand, CapturesOutputAndStatus) {
  auto output = run_command(shell("echo out; echo err >&2; exit 3"), soon());
  ASSERT_TRUE(output) << output.error().to_string();
  EXPECT_EQ(output->out, "out\n");
  EXPECT_EQ(output->err, "err\n");
  EXPECT_EQ(output->status.to_string(), "exit code 3");
  auto killed = run_command(shell("kill -9 $$"), soon());
  EXPECT_EQ(killed->status.signal, 9);
  EXPECT_EQ(killed->status.shell_code(), 137);
}

TEST(RunCommand, OutputIsBoundedAndFullPipesDoNotBlock) {
  auto output = run_command(shell("head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2"), soon(), 1000);
  ASSERT_TRUE(output);
  EXPECT_EQ(output->out.size(), 1000u);
  EXPECT_EQ(output->err.size(), 1000u);
  EXPECT_TRUE(output->status.success());
}

TEST(RunCommand, DeadlineKillsTheWholeGroup) {
  testing::TemporaryFolder folder;
  SpawnOptions options = shell("(sleep 1; touch late) & sleep 60");
  options.cwd = folder.path();
  EXPECT_EQ(run_command(options, Deadline::after(milliseconds(200))).error().code(), Code::kDeadlineExceeded);
  std::this_thread::sleep_for(milliseconds(1300));
  EXPECT_FALSE(*posix_file_system().exists(folder / "late"));
}

TEST(Process, ProgramsThatCannotStartSayWhy) {
  SpawnOptions options;
  options.argv = {"/no/such/program"};
  EXPECT_EQ(Process::spawn(options).error().code(), Code::kFileNotFound);
  options.argv = {"cairn-no-such-program"};
  EXPECT_EQ(Process::spawn(options).error().code(), Code::kFileNotFound);
  options.argv = {"/etc/passwd"};
  EXPECT_EQ(Process::spawn(options).error().code(), Code::kFileUnreadable);
  options = shell("true");
  options.cwd = "/no/such/folder";
  auto failed = Process::spawn(options);
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().message().find("enter the folder"), std::string::npos) << failed.error().message();
}

TEST(Process, InheritsExactlyWhatItIsGiven) {
  Pipe pipe = *make_pipe();
  Fd leaky(open("/dev/null", O_RDONLY));  // not close-on-exec
  Fd high(fcntl(leaky.get(), F_DUPFD, 200));
  SpawnOptions options = shell("ls /proc/self/fd | tr '\\n' ' '; echo via7 >&7");
  options.extra_fds = {{pipe.write_end.get(), 7}};
  options.env = {{"PATH=/usr/bin:/bin", "ONLY=this"}};
  auto output = run_command(options, soon());
  ASSERT_TRUE(output);
  // 3 is ls's own descriptor of the folder.
  EXPECT_EQ(output->out, "0 1 2 3 7 ");
  pipe.write_end.reset();
  EXPECT_EQ(*read_to_end(pipe.read_end.get(), 100, "pipe"), "via7\n");
  options = shell("env | grep -c ONLY");
  options.env = {{"PATH=/usr/bin:/bin", "ONLY=this"}};
  EXPECT_EQ(run_command(options, soon())->out, "1\n");
}

TEST(Process, DescriptorsMaySwapPlaces) {
  Pipe a = *make_pipe();
  Pipe b = *make_pipe();
  SpawnOptions options = shell("eval \"echo one >&" + std::to_string(b.write_end.get()) + "; echo two >&" +
                               std::to_string(a.write_end.get()) + "\"");
  options.extra_fds = {{a.write_end.get(), b.write_end.get()}, {b.write_end.get(), a.write_end.get()}};
  if (a.write_end.get() > 9 || b.write_end.get() > 9) options.argv[0] = "bash";
  auto process = Process::spawn(options);
  ASSERT_TRUE(process);
  EXPECT_TRUE(process->wait(soon())->success());
  a.write_end.reset();
  b.write_end.reset();
  EXPECT_EQ(*read_to_end(a.read_end.get(), 100, "a"), "one\n");
  EXPECT_EQ(*read_to_end(b.read_end.get(), 100, "b"), "two\n");
}

TEST(Process, WaitHonoursDeadlineAndCancel) {
  auto process = Process::spawn(shell("exec sleep 60"));
  ASSERT_TRUE(process);
  EXPECT_EQ(process->wait(Deadline::after(milliseconds(10))).error().code(), Code::kDeadlineExceeded);
  CancelToken token;
  std::thread canceller([&] { token.cancel(); });
  EXPECT_EQ(process->wait(Deadline::never(token)).error().code(), Code::kCancelled);
  canceller.join();
  EXPECT_FALSE(*process->try_wait());
  EXPECT_TRUE(process->kill(SIGTERM));
  EXPECT_EQ(process->wait(soon())->signal, SIGTERM);
  EXPECT_EQ(process->wait(soon())->signal, SIGTERM) << "asking again gives the same";
  EXPECT_TRUE(process->kill(SIGTERM)) << "of an ended one is ok";
}

TEST(Process, TerminateEndsWhatIgnoresSigterm) {
  Pipe ready = *make_pipe();
  SpawnOptions options = shell("trap '' TERM; echo >&3; while :; do sleep 1; done");
  options.extra_fds = {{ready.write_end.get(), 3}};
  options.new_session = true;
  auto process = Process::spawn(options);
  ASSERT_TRUE(process);
  uint8_t byte;
  ASSERT_EQ(*read_full(ready.read_end.get(), {&byte, 1}, "ready"), 1u);
  EXPECT_EQ(process->terminate(milliseconds(100))->signal, SIGKILL);
}

TEST(Process, ADroppedProcessIsKilledAndReaped) {
  pid_t pid;
  {
    auto process = Process::spawn(shell("exec sleep 60"));
    ASSERT_TRUE(process);
    pid = process->pid();
  }
  EXPECT_EQ(kill(pid, 0), -1);
}

TEST(Process, DiesWithTheThreadThatStartedIt) {
  Process process;
  std::thread([&] {
    SpawnOptions options = shell("exec sleep 60");
    options.death_signal = SIGKILL;
    auto started = Process::spawn(options);
    ASSERT_TRUE(started);
    process = *std::move(started);
  }).join();
  EXPECT_EQ(process.wait(soon())->signal, SIGKILL);
}

TEST(Process, StartsWithPlainSignalHandling) {
  signal(SIGPIPE, SIG_IGN);
  auto output = run_command(shell("grep SigIgn /proc/self/status"), soon());
  EXPECT_EQ(output->out, "SigIgn:\t0000000000000000\n");
}

TEST(LockFile, ExcludesAndNamesTheHolder) {
  testing::TemporaryFolder folder;
  std::string path = folder / "lock";
  auto held = LockFile::try_lock(path, "cairn server, pid 1");
  ASSERT_TRUE(held);
  auto refused = LockFile::try_lock(path, "another");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kBusy);
  EXPECT_EQ(refused.error().holder(), "cairn server, pid 1");
  EXPECT_EQ(LockFile::lock(path, "x", Deadline::after(milliseconds(60))).error().code(), Code::kBusy);
  std::thread releaser([&] { held->unlock(); });
  EXPECT_TRUE(LockFile::lock(path, "next", soon()));
  releaser.join();
  EXPECT_EQ(lock_note(path), "next");
  EXPECT_EQ(lock_note(folder / "none"), "");
}

TEST(LockFile, IsKeptByAChildThatInheritsIt) {
  testing::TemporaryFolder folder;
  auto held = LockFile::try_lock(folder / "lock", "parent");
  ASSERT_TRUE(held);
  SpawnOptions options = shell("exec sleep 60");
  options.extra_fds = {{held->fd(), 5}};
  auto child = Process::spawn(options);
  ASSERT_TRUE(child);
  held->unlock();
  EXPECT_FALSE(LockFile::try_lock(folder / "lock", "x"));
  EXPECT_TRUE(child->kill(SIGKILL));
  EXPECT_TRUE(child->wait(soon()));
  EXPECT_TRUE(LockFile::try_lock(folder / "lock", "x"));
}

TEST(Host, KnowsItself) {
  EXPECT_FALSE(host_name().empty());
  EXPECT_EQ(boot_id()->size(), 36u);
  EXPECT_GE(usable_cpus(), 1u);
  EXPECT_NE(executable_path()->find("os_test"), std::string::npos);
}

}  // namespace
}  // namespace cairn::os
