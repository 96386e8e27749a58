#include "trainer/launcher.h"

#include <cstdlib>
#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

#include "testing/temporary_folder.h"

namespace cairn::trainer {
namespace {

class AskedAfter final : public StopRequest {
 public:
  explicit AskedAfter(int looks) : looks_(looks) {}
  bool requested() const override { return looks_ > 0 && --left_ <= 0; }
  Duration age() const override { return Duration(0); }

 private:
  int looks_;
  mutable int left_ = looks_;
};

Result<int> run_script(const std::string& script, int count, int stop_after_looks = 0) {
  RunLog::Settings settings;
  settings.to_stdout = false;
  auto log = RunLog::open(settings, system_clock());
  AskedAfter stop(stop_after_looks);
  return run_processes({"/bin/sh", "-c", script}, count, stop, *log);
}

TEST(Launcher, EachProcessKnowsItsPlace) {
  testing::TemporaryFolder folder;
  std::string script = "echo $CAIRN_TRAINER_PROCESSES > " + folder.path() + "/$CAIRN_TRAINER_RANK; test -n \"$CAIRN_TRAINER_MEETING\"";
  auto code = run_script(script, 3);
  ASSERT_TRUE(code);
  EXPECT_EQ(*code, 0);
  for (const char* rank : {"0", "1", "2"}) EXPECT_TRUE(std::filesystem::exists(folder / rank));
}

TEST(Launcher, OneThatFailsEndsAll) {
  auto code = run_script("if test $CAIRN_TRAINER_RANK = 1; then exit 7; fi; sleep 600", 3);
  ASSERT_TRUE(code);
  EXPECT_EQ(*code, 7);
  code = run_script("if test $CAIRN_TRAINER_RANK = 0; then kill -KILL $$; fi; sleep 600", 2);
  ASSERT_TRUE(code);
  EXPECT_EQ(*code, 137);
}

TEST(Launcher, TheReasonIsNamedAndNotWhatItBroke) {
  testing::TemporaryFolder folder;
  std::string gone = folder / "gone";
  // The first process has lost its partner, and says so before the partner says why.
  for (Code code : {Code::kIoError, Code::kDeadlineExceeded}) {
    std::string lost = std::to_string(exit_code(code));
    auto ended = run_script("if test $CAIRN_TRAINER_RANK = 0; then touch " + gone + "; exit " + lost + "; fi; until test -e " + gone +
                                "; do sleep 0.05; done; exit 3", 2);
    ASSERT_TRUE(ended);
    EXPECT_EQ(*ended, 3);
    // Nobody has another reason.
    ended = run_script("exit " + lost, 3);
    ASSERT_TRUE(ended);
    EXPECT_EQ(*ended, exit_code(code));
  }
  auto ended = run_script("exit $((8 * ($CAIRN_TRAINER_RANK == 0) + 9 * ($CAIRN_TRAINER_RANK == 1)))", 3);
  ASSERT_TRUE(ended);
  EXPECT_EQ(*ended, 9);
}

TEST(Launcher, AStopReachesAll) {
  // Each leaves as a trainer does that has saved.
  auto code = run_script("trap 'exit 130' TERM; while :; do sleep 0.1; done", 2, 3);
  ASSERT_TRUE(code);
  EXPECT_EQ(*code, kExitStopped);
}

TEST(Launcher, AStopBeforeItIsHandledIsAStopToo) {
  // One has no handler yet; the other waits for it, and saves nothing.
  auto code = run_script("if test $CAIRN_TRAINER_RANK = 0; then exec sleep 600; fi; trap : TERM; sleep 600; sleep 600", 2, 2);
  ASSERT_TRUE(code);
  EXPECT_EQ(*code, kExitStopped);
}

TEST(Launcher, TheEnvironmentIsChecked) {
  ::unsetenv("CAIRN_TRAINER_RANK");
  EXPECT_FALSE(membership_from_environment()->has_value());
  ::setenv("CAIRN_TRAINER_RANK", "1", 1);
  ::setenv("CAIRN_TRAINER_MEETING", "/nowhere", 1);
  ::setenv("CAIRN_TRAINER_PROCESSES", "2", 1);
  auto good = membership_from_environment();
  ASSERT_TRUE(good);
  EXPECT_EQ((*good)->rank, 1);
  for (const char* bad : {"2", "-1", "x", ""}) {
    ::setenv("CAIRN_TRAINER_RANK", bad, 1);
    EXPECT_FALSE(membership_from_environment()) << bad;
  }
  ::unsetenv("CAIRN_TRAINER_RANK");
}

}  // namespace
}  // namespace cairn::trainer
