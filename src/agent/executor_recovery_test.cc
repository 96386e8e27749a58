// Executors and agents that are killed, nodes that lose their power, and whoever comes after (executor_fixture.h).
#include "agent/agent.h"
#include "agent/executor_fixture.h"

namespace cairn::agent {
namespace {

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
  reboot();
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
  reboot();
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
  ASSERT_EQ(reboot().phase, Phase::kExited);
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

}  // namespace
}  // namespace cairn::agent
