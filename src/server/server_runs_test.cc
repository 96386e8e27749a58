// Runs over HTTP, and what is checked of a training config before its run is queued.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "server/server_fixture.h"

namespace cairn::server {
namespace {

TEST_F(ServerTest, ARunFromQueueToEnd) {
  auto token = admin_->create_token({"node", "", {"node"}, {}}, soon());
  ASSERT_OK(token);
  auto node = connect(token->secret);
  auto registered = node->register_node({"box", "0", "boot", 4, 1 << 30, 1 << 30, 1 << 30, {}}, soon());
  ASSERT_OK(registered);

  // The node waits; the run that comes wakes it.
  Result<api::PollAnswer> poll = Error(Code::kInternal, "not polled");
  std::thread waiting([&] { poll = node->poll_node(registered->node, {{}, 1 << 30, 20}, soon()); });
  api::CreateRun request;
  request.command = {"echo hello"};
  request.mounts = {{"research", "", 0, false, false, true, true, {}}};
  auto run = admin_->create_run(request, soon());
  waiting.join();
  ASSERT_OK(run);
  ASSERT_OK(poll);
  ASSERT_EQ(poll->start.size(), 1u);
  EXPECT_EQ(poll->start[0].run, run->id);

  auto started = node->start_attempt(poll->start[0].attempt, {poll->start[0].secret}, soon());
  ASSERT_OK(started);
  EXPECT_EQ(started->command, (std::vector<std::string>{"/bin/sh", "-c", "echo hello"}));
  ASSERT_EQ(started->mounts.size(), 1u);
  EXPECT_TRUE(started->mounts[0].upload);

  api::HeartbeatAttempt beat;
  beat.secret = poll->start[0].secret;
  beat.state = api::RunState::kRunning;
  beat.log_sequence = 1;
  beat.logs = {{"run", Time{1'700'000'000'000'000}, "hello"}};
  ASSERT_OK(node->heartbeat_attempt(poll->start[0].attempt, beat, soon()));
  auto logs = admin_->run_logs(run->id, {0, "", 100, 5}, soon());
  ASSERT_OK(logs);
  bool said = std::any_of(logs->lines.begin(), logs->lines.end(), [](const auto& line) { return line.text == "hello"; });
  EXPECT_TRUE(said);
  EXPECT_CODE(Code::kVolumeInUse, admin_->delete_volume("research", false, soon()));

  ASSERT_OK(admin_->stop_run(run->id, {5}, soon()));
  auto told = node->heartbeat_attempt(poll->start[0].attempt, beat, soon());
  ASSERT_OK(told);
  EXPECT_TRUE(told->stop);
  api::FinishAttempt end;
  end.secret = poll->start[0].secret;
  end.state = api::RunState::kStopped;
  end.exit_code = 143;
  ASSERT_OK(node->finish_attempt(poll->start[0].attempt, end, soon()));
  auto ended = admin_->get_run(run->id, soon());
  ASSERT_OK(ended);
  EXPECT_EQ(ended->state, api::RunState::kStopped);
  EXPECT_EQ(ended->exit_code, 143);
  ASSERT_OK(admin_->delete_volume("research", false, soon()));
}

// What the server says to a training: "QUEUED", or code and message.
class TrainingTest : public ServerTest {
 protected:
  std::string train(const std::string& config, const std::string& volume = "") {
    api::CreateRun request;
    request.kind = api::RunKind::kTrain;
    request.config = config;
    request.config_name = "t.toml";
    if (!volume.empty()) request.mounts = {{volume, "", 0, false, false, true, true, {}}};
    request.queue = true;
    auto run = admin_->create_run(request, soon());
    if (run) last_ = run->id;
    if (run) return std::string(api::state_name(run->state));
    return std::string(wire_name(run.error().code())) + ": " + run.error().message();
  }
  void write(const std::string& path, const std::string& text) {
    std::string file = folder_.path() + "/files/" + path;
    std::filesystem::create_directories(file.substr(0, file.rfind('/')));
    std::ofstream(file) << text;
  }
  RunId last_;
};

constexpr char kSftConfig[] =
    "volume = \"research\"\n[model]\nname = \"models/m\"\n[data]\nname = \"/volume/datasets/d.jsonl\"\n[renderer]\nname = \"qwen3\"\n";

TEST_F(TrainingTest, TheSchemaIsCheckedBeforeARunIsQueued) {
  EXPECT_EQ(train("mode = \"sft\"\n[data]\ntype = \"fake\"\n"), "QUEUED");
  EXPECT_EQ(train("mode = \"sft\"\n[data]\ntipe = \"fake\"\n"), "config_invalid: t.toml, line 3: unknown key 'data.tipe'");
  EXPECT_EQ(train(std::string(kSftConfig) + "[model.lora]\nrank = 1\n", "research"),
            "config_unsupported: t.toml, line 8: 'model.lora' is not built: all weights are trained; adapters are not built");
  EXPECT_EQ(train("engine = \"other\"\nx = 1\n"),
            "config_unsupported: engine 'other' is not known here; engines here: cairn (built in)");
  const std::string fake = "mode = \"sft\"\n[data]\ntype = \"fake\"\n";
  EXPECT_EQ(train(fake + "[resume]\nstep = 5\n"),
            "config_invalid: [resume] without dir goes on from the run's own checkpoints, and a new run has none");
  EXPECT_EQ(train("gpu_type = \"1\"\nmode = \"sft\"\n[data]\ntype = \"fake\"\n[deployment]\nnum_train_gpus = 2\n"),
            "config_invalid: deployment.num_train_gpus is 2, and 1 GPUs were asked for");
  // A refused run creates no volume.
  EXPECT_CODE(Code::kVolumeNotFound, admin_->get_volume("research", soon()));
}

// A config that says with how many GPUs it trains asks for them; one that says nothing asks for none.
TEST_F(TrainingTest, AConfigThatNamesGpusGetsNoCpus) {
  auto token = admin_->create_token({"node", "", {"node"}, {}}, soon());
  ASSERT_OK(token);
  ASSERT_OK(connect(token->secret)->register_node({"box", "0", "boot", 4, 1 << 30, 1 << 30, 1 << 30, {}}, soon()));
  auto waits_for = [&](const std::string& config) {
    std::string state = train(config);
    auto run = admin_->get_run(last_, soon());
    if (!run) return run.error().to_string();
    return run->reason.substr(0, run->reason.find(':'));
  };
  const std::string fake = "mode = \"sft\"\n[data]\ntype = \"fake\"\n", two = "[deployment]\nnum_train_gpus = 2\n";
  EXPECT_EQ(waits_for(fake), "");
  EXPECT_EQ(waits_for("gpu_type = \"cpu\"\n" + fake + two), "");
  EXPECT_EQ(train(fake + two), "gpu_type_unavailable: no node has 2 GPUs; GPUs there are: none");
  EXPECT_EQ(train("gpu_type = \"h200\"\n" + fake + two),
            "gpu_type_unavailable: no node has 2 GPUs of type h200; GPUs there are: none");
}

TEST_F(TrainingTest, WhatIsReadMustBeOnTheVolume) {
  std::string config = kSftConfig;
  std::string without = config.substr(config.find('\n') + 1);
  EXPECT_EQ(train(without), "data_requires_volume: model.name is 'models/m', a path on a volume, and the run has none");
  EXPECT_EQ(train(config), "data_missing_on_volume: model.name is 'models/m', and there is no volume 'research' yet");
  ASSERT_OK(admin_->create_volume({"research", {}, {}}, soon()));
  EXPECT_EQ(train(config), "data_missing_on_volume: model.name: 'models/m' is not there on volume 'research'");

  auto add = [&](const std::string& path) {
    write(path, "{}");
    auto sent = put("research", folder_.path() + "/files/", "/");
    EXPECT_TRUE(sent) << sent.error().to_string();
  };
  add("models/m/config.json");
  EXPECT_EQ(train(config), "data_missing_on_volume: model.name: the folder 'models/m' has no tokenizer.json on volume 'research'");
  add("models/m/tokenizer.json");
  EXPECT_EQ(train(config), "data_missing_on_volume: model.name: the folder 'models/m' has no model.safetensors or "
                           "model.safetensors.index.json on volume 'research'");
  add("models/m/model.safetensors.index.json");
  EXPECT_EQ(train(config), "data_missing_on_volume: data.name: 'datasets/d.jsonl' is not there on volume 'research'");
  add("datasets/d.jsonl");
  EXPECT_EQ(train(config), "QUEUED");
  EXPECT_EQ(train(without, "research"), "QUEUED");

  std::string pretrain = "mode = \"pretrain\"\n[model]\nname = \"models/m\"\n[data]\npaths = [\"datasets\", \"datasets/d.jsonl\"]\n";
  EXPECT_EQ(train(pretrain, "research"),
            "data_missing_on_volume: data.paths[1]: 'datasets/d.jsonl' is a file, and a folder is wanted on volume 'research'");
  std::string resume = without + "[resume]\ndir = \"kept/step_5\"\n";
  EXPECT_EQ(train(resume, "research"), "data_missing_on_volume: resume.dir: 'kept/step_5' is not there on volume 'research'");
  add("kept/step_5/trainer/rank0");
  EXPECT_EQ(train(resume, "research"),
            "checkpoint_incomplete: resume.dir: 'kept/step_5' on volume 'research' is no complete checkpoint: it has no trainer/.metadata");
  add("kept/step_5/trainer/.metadata");
  EXPECT_EQ(train(resume, "research"), "QUEUED");
  EXPECT_EQ(train(without + "[tokenizer]\nname = \"datasets/d.jsonl/x\"\n", "research"),
            "data_missing_on_volume: tokenizer.name: 'datasets/d.jsonl/x' is not there on volume 'research'");

  // A link may lead anywhere: the run will see.
  std::filesystem::create_symlink("datasets", folder_.path() + "/files/link");
  add("datasets/more/d.jsonl");
  EXPECT_EQ(train("mode = \"pretrain\"\n[model]\nname = \"models/m\"\n[data]\npaths = [\"link\", \"link/more\"]\n", "research"), "QUEUED");
}

TEST_F(TrainingTest, TheBuiltInCommand) {
  ASSERT_EQ(train("mode = \"sft\"\n[data]\ntype = \"fake\"\n[env_vars]\nOMP_NUM_THREADS = \"3\"\n"), "QUEUED");
  auto token = admin_->create_token({"node", "", {"node"}, {}}, soon());
  ASSERT_OK(token);
  auto node = connect(token->secret);
  auto registered = node->register_node({"box", "0", "boot", 4, 1 << 30, 1 << 30, 1 << 30, {}}, soon());
  ASSERT_OK(registered);
  auto poll = node->poll_node(registered->node, {{}, 1 << 30, 20}, soon());
  ASSERT_OK(poll);
  ASSERT_EQ(poll->start.size(), 1u);
  auto started = node->start_attempt(poll->start[0].attempt, {poll->start[0].secret}, soon());
  ASSERT_OK(started);
  EXPECT_EQ(started->command, (std::vector<std::string>{"cairn-trainer", "/output/configs/t.toml", "--volume-root", "/volume",
                                                        "--output-dir", "/output"}));
  EXPECT_EQ(started->environment.at("OMP_NUM_THREADS"), "3");
}

}  // namespace
}  // namespace cairn::server
