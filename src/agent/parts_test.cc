// Journal, log spool, usage and loss, sandbox arguments.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include <gtest/gtest.h>

#include "agent/checkpoint_scan.h"
#include "agent/heartbeat.h"
#include "agent/journal.h"
#include "agent/log_spool.h"
#include "agent/node_facts.h"
#include "agent/sandbox.h"
#include "agent/sandbox_plan.h"
#include "agent/test_world.h"
#include "agent/usage.h"
#include "api/json.h"
#include "base/random.h"
#include "testing/temporary_folder.h"

namespace cairn::agent {
namespace {

using cairn::testing::TemporaryFolder;
using testing::fs::create_directories;
using testing::slurp;

void write_file(const std::string& path, const std::string& text) {
  create_directories(testing::fs::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

JournalState full_state() {
  JournalState state;
  state.phase = Phase::kExited;
  state.boot_id = "b-1";
  state.sandbox_pid = 12;
  state.init_pid = 13;
  state.sandbox_started = 100;
  state.init_started = 101;
  state.exit_code = 3;
  state.outcome = api::RunState::kStopped;
  state.reason = "100 % of\nthe space\x7f";
  state.plain_copy = {true, false, true};
  state.synced = {false, true};
  state.snapshot = 7;
  state.saved_step = 1200;
  state.kept_aside = true;
  state.keep = true;
  state.lost_bytes = 5;
  state.lost_paths = {"/mnt/x y", "/workspace/\n"};
  return state;
}

TEST(Journal, StateSurvivesBeingWritten) {
  for (const JournalState& state : {JournalState(), full_state()}) {
    auto back = parse_state(format_state(state));
    ASSERT_TRUE(back) << back.error().to_string();
    EXPECT_EQ(format_state(*back), format_state(state));
    EXPECT_EQ(back->reason, state.reason);
    EXPECT_EQ(back->synced, state.synced);
    EXPECT_EQ(back->lost_paths, state.lost_paths);
  }
}

TEST(Journal, DamageIsNoticed) {
  std::string text = format_state(full_state());
  for (size_t length = 0; length < text.size(); ++length) EXPECT_FALSE(parse_state(text.substr(0, length))) << length;
  EXPECT_FALSE(parse_state("phase 99\nend 1\n"));
  EXPECT_FALSE(parse_state("phase -1\nend 1\n"));
  EXPECT_FALSE(parse_state("nonsense 1\nend 1\n"));
  EXPECT_FALSE(parse_state("outcome LOST\nend 1\n"));
  EXPECT_FALSE(parse_state("reason %zz\nend 1\n"));
  EXPECT_FALSE(parse_state("end 1\nphase 1\n"));
  SeededRandom random(7);
  for (int i = 0; i < 2000; ++i) {
    std::string broken = text;
    broken[random.below(broken.size())] = static_cast<char>(random.below(256));
    static_cast<void>(parse_state(broken).has_value());  // any answer, no crash
  }
}

TEST(Journal, OneExecutorAtATime) {
  TemporaryFolder folder;
  api::Assignment assignment;
  assignment.run = RunId::random(system_random());
  assignment.attempt = AttemptId::random(system_random());
  assignment.secret = "secret";
  std::string dir = folder / "a";
  ASSERT_TRUE(Journal::create(dir, assignment));
  EXPECT_FALSE(Journal::in_use(dir));
  {
    auto journal = Journal::open(dir);
    ASSERT_TRUE(journal) << journal.error().to_string();
    EXPECT_EQ(journal->assignment().secret, "secret");
    EXPECT_EQ(journal->assignment().run, assignment.run);
    EXPECT_TRUE(Journal::in_use(dir));
    auto second = Journal::open(dir);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code(), Code::kBusy);
    ASSERT_TRUE(journal->save(full_state()));
  }
  EXPECT_FALSE(Journal::in_use(dir));
  // Says that it started, but start.json is not there.
  auto damaged = Journal::open(dir);
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().code(), Code::kDataCorrupt);
  struct stat stat;
  ASSERT_EQ(::stat((dir + "/assignment.json").c_str(), &stat), 0);
  EXPECT_EQ(stat.st_mode & 0777, 0600u);
  // Creating again leaves what is there.
  ASSERT_TRUE(Journal::create(dir, api::Assignment()));
  EXPECT_EQ(Journal::peek(dir)->phase, Phase::kExited);
}

std::vector<std::string> texts(const LogBatch& batch) {
  std::vector<std::string> lines;
  for (const api::LogRecord& record : batch.records) lines.push_back(record.component + ":" + record.text);
  return lines;
}

TEST(LogSpool, LinesAreNumberedAndSentAgainUntilAcknowledged) {
  TemporaryFolder folder;
  auto spool = LogSpool::open(folder / "lines", system_clock());
  ASSERT_TRUE(spool) << spool.error().to_string();
  (*spool)->write("stdout", "one\ntw");
  (*spool)->write("stderr", "err\n");
  (*spool)->write("stdout", "o\nthree");
  (*spool)->close_component("stdout");
  std::vector<std::string> all = {"stdout:one", "stderr:err", "stdout:two", "stdout:three"};
  for (int again = 0; again < 2; ++again) {
    auto batch = (*spool)->batch_after(0);
    ASSERT_TRUE(batch);
    EXPECT_EQ(batch->first_sequence, 1u);
    EXPECT_EQ(texts(*batch), all);
  }
  EXPECT_EQ(texts(*(*spool)->batch_after(2)), std::vector<std::string>(all.begin() + 2, all.end()));
  EXPECT_TRUE((*spool)->batch_after(4)->records.empty());
  // The server forgot (another attempt's answer): from the beginning again.
  EXPECT_EQ(texts(*(*spool)->batch_after(1)), std::vector<std::string>(all.begin() + 1, all.end()));
  EXPECT_EQ((*spool)->last_sequence(), 4u);
}

TEST(LogSpool, GoesOnAfterAKillAndCutsATornRecord) {
  TemporaryFolder folder;
  std::string path = folder / "lines";
  {
    auto spool = LogSpool::open(path, system_clock());
    (*spool)->write("stdout", "one\ntwo\n");
  }
  auto size = testing::fs::file_size(path);
  for (uintmax_t cut = 1; cut < 22; ++cut) {
    testing::fs::resize_file(path, size - cut);
    auto spool = LogSpool::open(path, system_clock());
    ASSERT_TRUE(spool);
    EXPECT_EQ((*spool)->last_sequence(), 1u);
    (*spool)->write("stdout", "two\n");
    EXPECT_EQ(texts(*(*spool)->batch_after(0)), (std::vector<std::string>{"stdout:one", "stdout:two"}));
  }
}

// The server has four lines; a power loss left one of them here.
TEST(LogSpool, GoesOnAfterTheServersLastLine) {
  TemporaryFolder folder;
  std::string path = folder / "lines";
  std::vector<std::string> lost(3, "cairn:this line was lost when the node was restarted");
  std::vector<std::string> all = {"stdout:one", lost[0], lost[1], lost[2], "cairn:restarted"};
  {
    auto spool = LogSpool::open(path, system_clock());
    (*spool)->write("stdout", "one\n");
    (*spool)->go_on_after(1);
    EXPECT_EQ((*spool)->last_sequence(), 1u);
    (*spool)->go_on_after(4);
    EXPECT_TRUE((*spool)->batch_after(4)->records.empty());
    (*spool)->note("restarted");
    EXPECT_EQ((*spool)->last_sequence(), 5u);
  }
  auto spool = LogSpool::open(path, system_clock());
  ASSERT_TRUE(spool);
  EXPECT_EQ((*spool)->last_sequence(), 5u);
  for (uint64_t acknowledged : {0, 1, 2, 3, 4, 5, 2, 0}) {
    auto batch = (*spool)->batch_after(acknowledged);
    ASSERT_TRUE(batch);
    EXPECT_EQ(batch->first_sequence, acknowledged + 1);
    EXPECT_EQ(texts(*batch), std::vector<std::string>(all.begin() + static_cast<std::ptrdiff_t>(acknowledged), all.end()));
  }
  std::string file = folder / "again";
  int fd = ::open(file.c_str(), O_RDWR | O_CREAT, 0644);
  ASSERT_TRUE((*spool)->rewrite("cairn", fd));
  ::close(fd);
  EXPECT_EQ(slurp(file), "restarted\n");
  EXPECT_EQ((*spool)->component_bytes("cairn"), 10u);
}

TEST(LogSpool, BytesThatAreNoTextAreShownAndKept) {
  TemporaryFolder folder;
  auto spool = LogSpool::open(folder / "lines", system_clock());
  std::string file = folder / "stdout.log";
  (*spool)->tee("stdout", os::Fd(::open(file.c_str(), O_WRONLY | O_CREAT, 0644)));
  std::string raw("a\xff" "b\0c\xc3\xa4\xed\xa0\x80\n", 11);
  (*spool)->write("stdout", raw);
  auto batch = (*spool)->batch_after(0);
  ASSERT_EQ(batch->records.size(), 1u);
  EXPECT_EQ(batch->records[0].text,
            "a\xEF\xBF\xBD" "b\xEF\xBF\xBD" "c\xc3\xa4\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(slurp(file), raw);
}

TEST(LogSpool, ABatchIsBoundedAsItIsSent) {
  for (std::string line : {std::string(15'000, '\x1b'), std::string(15'000, '"'), std::string("x")}) {
    TemporaryFolder folder;
    ManualClock clock;
    auto spool = LogSpool::open(folder / "spool", clock);
    ASSERT_TRUE(spool);
    const uint64_t lines = 400;
    for (uint64_t i = 0; i < lines; ++i) (*spool)->write("stdout", line + "\n");
    uint64_t acknowledged = 0;
    while (acknowledged < lines) {
      auto batch = (*spool)->batch_after(acknowledged);
      ASSERT_TRUE(batch);
      ASSERT_FALSE(batch->records.empty());
      acknowledged += batch->records.size();
      api::HeartbeatAttempt body;
      body.logs = std::move(batch->records);
      EXPECT_LT(api::to_json(body).size(), api::kRequestBytesMax / 2);
    }
    EXPECT_EQ(acknowledged, lines);
  }
}

TEST(LogSpool, LongLinesAreCutBetweenCharactersAndJoinedAgain) {
  TemporaryFolder folder;
  auto spool = LogSpool::open(folder / "lines", system_clock());
  std::string line;
  while (line.size() < 3 * api::kLogTextBytesMax) line += "x\xc3\xa4";
  (*spool)->write("stdout", line);  // no end yet
  (*spool)->write("stdout", "\nnext\n");
  auto batch = (*spool)->batch_after(0);
  std::string joined;
  for (const api::LogRecord& record : batch->records) {
    EXPECT_LE(record.text.size(), api::kLogTextBytesMax);
    if (record.text != "next") joined += record.text;
  }
  EXPECT_EQ(joined, line);
  std::string file = folder / "again";
  int fd = ::open(file.c_str(), O_RDWR | O_CREAT, 0644);
  ASSERT_TRUE((*spool)->rewrite("stdout", fd));
  ::close(fd);
  EXPECT_EQ(slurp(file), line + "\nnext\n");
  EXPECT_EQ((*spool)->component_bytes("stdout"), line.size() + 6);
}

TEST(LogSpool, IsBounded) {
  TemporaryFolder folder;
  auto spool = LogSpool::open(folder / "lines", system_clock(), 10'000);
  for (int i = 0; i < 5000; ++i) (*spool)->write("stdout", "a line of some length\n");
  EXPECT_LT(testing::fs::file_size(folder / "lines"), 11'000u);
  uint64_t acknowledged = 0;
  std::string last;
  while (true) {
    auto batch = (*spool)->batch_after(acknowledged);
    if (batch->records.empty()) break;
    acknowledged += batch->records.size();
    last = batch->records.back().text;
  }
  EXPECT_NE(last.find("longer than Cairn keeps"), std::string::npos);
}

TEST(Heartbeat, TheRunsLogSaysThatALeaseWasLost) {
  class Closed final : public testing::FolderServer {
   public:
    Closed(std::string dir, Code code) : FolderServer(std::move(dir)), code_(code) {}
    Status heartbeat_upload(const api::Upload&, const Deadline&) override { return Error(code_, "no"); }

   private:
    Code code_;
  };
  for (Code code : {Code::kLeaseLost, Code::kUploadExpired, Code::kServerUnavailable}) {
    TemporaryFolder folder;
    Closed server(folder.path(), code);
    auto spool = LogSpool::open(folder / "lines", system_clock());
    ASSERT_TRUE(spool);
    api::AttemptStart start;
    start.heartbeat_seconds = 1;
    start.mounts.emplace_back().upload.emplace();
    start.mounts[0].volume = "data";
    Heartbeat heartbeat(server, **spool, start, "secret", CancelToken(), CancelToken());
    // The second state is told after the leases were renewed with the first.
    for (api::RunState state : {api::RunState::kRunning, api::RunState::kSyncing}) {
      heartbeat.set_state(state, "");
      std::string name(api::state_name(state));
      for (int i = 0; i < 600 && slurp(folder / "last_state") != name; ++i) system_clock().sleep_for(milliseconds(20));
      ASSERT_EQ(slurp(folder / "last_state"), name);
    }
    EXPECT_EQ((*spool)->last_sequence(), code == Code::kServerUnavailable ? 0u : 1u) << "said once";
  }
}

TEST(Usage, CountsWhatTheVolumeWouldHold) {
  TemporaryFolder folder;
  std::string lower = folder / "lower";
  std::string upper = folder / "upper";
  write_file(lower + "/a", std::string(100, 'a'));
  write_file(lower + "/b", std::string(200, 'b'));
  write_file(lower + "/d/x", std::string(400, 'x'));
  write_file(lower + "/e/y", std::string(800, 'y'));
  create_directories(upper);
  EXPECT_EQ(overlay_use(upper, lower, 1500)->live_bytes, 1500u);
  write_file(upper + "/new", std::string(10, 'n'));
  write_file(upper + "/a", std::string(50, 'A'));   // replaced
  write_file(upper + "/d/z", std::string(5, 'z'));  // added beside d/x
  auto use = overlay_use(upper, lower, 1500);
  ASSERT_TRUE(use);
  EXPECT_EQ(use->live_bytes, 1500u - 100 + 10 + 50 + 5);
  EXPECT_EQ(use->written_files, 3u);
  if (::mknod((upper + "/b").c_str(), S_IFCHR, makedev(0, 0)) == 0 && ::mknod((upper + "/e").c_str(), S_IFCHR, makedev(0, 0)) == 0) {
    EXPECT_EQ(overlay_use(upper, lower, 1500)->live_bytes, 1500u - 100 - 200 - 800 + 10 + 50 + 5);
  }
  EXPECT_EQ(folder_use(lower)->live_bytes, 1500u);
}

TEST(Usage, LossIsNamedLargestFirst) {
  TemporaryFolder folder;
  write_file(folder / "w/small", "1");
  write_file(folder / "w/deep/large", std::string(1000, 'l'));
  write_file(folder / "w/empty", "");
  write_file(folder / "w/venv/lib", std::string(5000, 'v'));
  Loss loss;
  ASSERT_TRUE(add_loss(folder / "w", "/workspace", {"venv"}, loss));
  ASSERT_TRUE(add_loss(folder / "absent", "/x", {}, loss));
  EXPECT_EQ(loss.bytes, 1001u);
  EXPECT_EQ(loss.files, 2u);
  EXPECT_EQ(loss.paths(), (std::vector<std::string>{"/workspace/deep/large", "/workspace/small"}));
}

TEST(CheckpointScan, OnlyCompleteStepsCount) {
  TemporaryFolder folder;
  std::string dir = "runs/r/checkpoints";
  std::string top = folder.path() + "/" + dir;
  EXPECT_EQ(*newest_complete_step(folder.path(), dir), std::nullopt);
  write_file(top + "/step_100/trainer/.metadata", "m");
  write_file(top + "/step_200/model.safetensors.index.json", "{}");
  write_file(top + "/step_200/model-00001-of-00002.safetensors", "1");
  write_file(top + "/step_300/weights", "1");
  write_file(top + "/step_x/trainer/.metadata", "m");
  EXPECT_EQ(*newest_complete_step(folder.path(), dir), std::optional<uint64_t>(100));
  write_file(top + "/step_200/model-00002-of-00002.safetensors", "2");
  EXPECT_EQ(*newest_complete_step(folder.path(), dir), std::optional<uint64_t>(200));
}

TEST(NodeFacts, GpusComeFromTheDriversFiles) {
  TemporaryFolder folder;
  write_file(folder / "proc/0000:01:00.0/information", "Model: \t\t NVIDIA H200\nDevice Minor: \t 1\n");
  write_file(folder / "proc/0000:02:00.0/information", "Model: \t\t NVIDIA A100-SXM4-80GB\nDevice Minor: \t 0\n");
  write_file(folder / "proc/0000:03:00.0/information", "Model: \t\t NVIDIA H200\nDevice Minor: \t 7\n");
  write_file(folder / "dev/nvidia0", "");
  write_file(folder / "dev/nvidia1", "");
  auto gpus = find_gpus(folder / "proc", folder / "dev");
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0].name, "nvidia-a100-sxm4-80gb");
  EXPECT_EQ(gpus[1].index, 1);
  EXPECT_EQ(gpus[1].name, "nvidia-h200");
  auto facts = node_facts("n1", folder.path());
  ASSERT_TRUE(facts) << facts.error().to_string();
  EXPECT_GE(facts->cpus, 1u);
  EXPECT_GT(facts->memory_bytes, 1u << 20);
  EXPECT_GT(facts->disk_total_bytes, facts->disk_free_bytes);
  EXPECT_FALSE(facts->boot_id.empty());
}

TEST(Sandbox, ArgumentsHoldWhatTheRulesAsk) {
  SandboxSpec spec;
  spec.root = "/r";
  spec.binds = {{"/m/merged", "/volume", false}, {"/lower", "/mnt/data", true}};
  spec.command = {"echo", "--", "x"};
  spec.working_directory = "/workspace";
  spec.gpus = {3};
  std::vector<std::string> arguments = sandbox_arguments(spec);
  auto has = [&](std::vector<std::string> words) {
    return std::search(arguments.begin(), arguments.end(), words.begin(), words.end()) != arguments.end();
  };
  EXPECT_TRUE(has({"--cap-drop", "ALL"}));
  EXPECT_TRUE(has({"--unshare-pid"}));
  EXPECT_TRUE(has({"--die-with-parent"}));
  EXPECT_TRUE(has({"--bind", "/m/merged", "/volume"}));
  EXPECT_TRUE(has({"--ro-bind", "/lower", "/mnt/data"}));
  EXPECT_TRUE(has({"--dev-bind", "/dev/nvidia3", "/dev/nvidia3"}));
  EXPECT_FALSE(has({"/dev/nvidia0"}));
  EXPECT_FALSE(has({"/etc/shadow"}));
  EXPECT_FALSE(has({"/etc/ssl"})) << "private keys lie there";
  EXPECT_TRUE(has({"--chdir", "/workspace", "--", "echo", "--", "x"}));
}

TEST(SandboxPlan, GrantedGpusAreCountedFromZeroInside) {
  TemporaryFolder folder;
  ASSERT_TRUE(Journal::create(folder / "attempt", api::Assignment()));
  auto journal = Journal::open(folder / "attempt");
  ASSERT_TRUE(journal) << journal.error().to_string();
  api::AttemptStart start;
  start.command = {"true"};
  ASSERT_TRUE(journal->save_start(start));
  testing::FolderVolumes volumes(folder.path());
  AttemptMounts mounts(*journal, volumes);
  GrantedGpus gpus;
  for (const auto& [indexes, visible] : std::vector<std::pair<std::vector<int64_t>, std::string>>{
           {{}, ""}, {{2}, "0"}, {{3, 5}, "0,1"}}) {
    gpus.indexes = indexes;
    auto spec = plan_sandbox(*journal, mounts, OutputPlace{}, gpus, ExecutorSettings());
    ASSERT_TRUE(spec) << spec.error().to_string();
    EXPECT_EQ(spec->environment["CUDA_VISIBLE_DEVICES"], visible);
    EXPECT_EQ(spec->gpus, indexes);
  }
}

TEST(Sandbox, HiddenFoldersAreCoveredWhereTheyReallyLie) {
  std::string folder = "/opt/cairn-test-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) GTEST_SKIP() << "nothing can be made in /opt";
  TemporaryFolder links;
  write_file(folder + "/key.pem", "key");
  ASSERT_EQ(::mkdir((folder + "/data").c_str(), 0700), 0);
  ASSERT_EQ(::symlink(folder.c_str(), (links / "srv").c_str()), 0);
  SandboxSpec spec;
  spec.root = "/r";
  spec.hidden = {links / "srv/data", folder + "/data/../key.pem", folder + "/not-there", links / "srv"};
  std::vector<std::string> arguments = sandbox_arguments(spec);
  auto has = [&](std::vector<std::string> words) {
    return std::search(arguments.begin(), arguments.end(), words.begin(), words.end()) != arguments.end();
  };
  EXPECT_TRUE(has({"--tmpfs", folder + "/data"}));
  EXPECT_TRUE(has({"--ro-bind", "/dev/null", folder + "/key.pem"}));
  EXPECT_TRUE(has({"--tmpfs", folder}));
  EXPECT_FALSE(has({"--tmpfs", folder + "/not-there"}));
  testing::fs::remove_all(folder);
}

TEST(Sandbox, AProcessIsKnownByNumberAndStart) {
  auto own = process_start_time(::getpid());
  ASSERT_TRUE(own);
  EXPECT_GT(*own, 0);
  EXPECT_EQ(process_start_time(0), std::nullopt);
  EXPECT_EQ(process_start_time(999'999'999), std::nullopt);
  // The number of another process is not signalled.
  EXPECT_TRUE(end_leftover(::getpid(), *own + 1, Deadline::after(seconds(1))));
}

}  // namespace
}  // namespace cairn::agent
