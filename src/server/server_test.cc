// A whole server in this process, spoken to over loopback by the real client.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include <sys/stat.h>

#include <gtest/gtest.h>

#include "api/json.h"
#include "client/api_client.h"
#include "codec/crc32c.h"
#include "codec/hex.h"
#include "net/transport.h"
#include "object/memory_store.h"
#include "server/instance.h"
#include "server/object_routes.h"
#include "testing/temporary_folder.h"
#include "transfer/api_remote.h"
#include "transfer/get.h"
#include "transfer/put.h"

#define ASSERT_OK(...)                                               \
  do {                                                               \
    auto assert_status = (__VA_ARGS__);                              \
    ASSERT_TRUE(assert_status) << assert_status.error().to_string(); \
  } while (false)
#define EXPECT_CODE(code_value, ...)                                                                                \
  do {                                                                                                              \
    auto expect_status = (__VA_ARGS__);                                                                             \
    EXPECT_FALSE(expect_status);                                                                                    \
    if (!expect_status) {                                                                                           \
      EXPECT_EQ(wire_name(expect_status.error().code()), wire_name(code_value)) << expect_status.error().to_string(); \
    }                                                                                                               \
  } while (false)

namespace cairn::server {
namespace {

class Silent final : public transfer::Progress {};

class ServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    settings_.data_dir = folder_.path() + "/data";
    settings_.port = 0;
    start();
  }
  void TearDown() override {
    if (instance_) instance_->stop(seconds(5));
  }

  void start() {
    auto instance = Instance::start(settings_);
    ASSERT_TRUE(instance) << instance.error().to_string();
    instance_ = *std::move(instance);
    url_ = "http://127.0.0.1:" + std::to_string(instance_->port());
    admin_ = connect(instance_->admin_token());
  }
  std::unique_ptr<client::ApiClient> connect(const std::string& token) {
    client::ClientOptions options;
    options.url = url_;
    options.token = token;
    return std::make_unique<client::ApiClient>(transport_, system_clock(), system_random(), options);
  }
  Deadline soon() { return Deadline::after(seconds(20)); }

  net::HttpResponse send(const std::string& method, const std::string& target, const std::string& body = {},
                         net::HeaderList headers = {}, bool signed_in = true) {
    net::HttpRequest request;
    request.method = method;
    request.url = url_ + target;
    request.headers = std::move(headers);
    if (signed_in) request.headers.emplace_back("Authorization", "Bearer " + instance_->admin_token());
    request.body = {reinterpret_cast<const uint8_t*>(body.data()), body.size()};
    auto response = transport_.round_trip(request, soon());
    EXPECT_TRUE(response) << response.error().to_string();
    return response ? *response : net::HttpResponse();
  }
  static Code code_of(const net::HttpResponse& response) {
    auto error = api::error_from_json(response.body, response.status);
    return error ? error->code() : Code::kInternal;
  }

  std::string write_tree() {
    std::string top = folder_.path() + "/tree";
    std::filesystem::create_directories(top + "/sub/empty");
    std::ofstream(top + "/a.txt") << "hello\n";
    std::ofstream(top + "/sub/nothing");
    std::string big(3'000'000, '\0');
    SeededRandom random(5);
    random.fill({reinterpret_cast<uint8_t*>(big.data()), big.size()});
    std::ofstream(top + "/sub/big.bin", std::ios::binary) << big;
    return top;
  }
  Result<transfer::PutSummary> put(const std::string& volume, const std::string& local, const std::string& remote) {
    auto target = transfer::make_api_remote(*admin_, volume);
    transfer::PutOptions options;
    options.local = local;
    options.remote = remote;
    options.state_dir = folder_.path() + "/state";
    options.cache_dir = folder_.path() + "/cache";
    Silent silent;
    return transfer::put(*target, options, silent, soon());
  }

  testing::TemporaryFolder folder_;
  config::ServerSettings settings_;
  net::CurlTransport transport_;
  std::unique_ptr<Instance> instance_;
  std::string url_;
  std::unique_ptr<client::ApiClient> admin_;
};

TEST_F(ServerTest, PutPublishListGet) {
  ASSERT_OK(admin_->create_volume({"research", {}, {}}, soon()));
  std::string top = write_tree();
  auto sent = put("research", top + "/", "/data/");
  ASSERT_TRUE(sent) << sent.error().to_string();
  EXPECT_TRUE(sent->published);
  EXPECT_EQ(sent->files, 3u);

  auto volume = admin_->get_volume("research", soon());
  ASSERT_OK(volume);
  EXPECT_EQ(volume->snapshot, sent->snapshot);
  EXPECT_EQ(volume->files, 3u);
  EXPECT_EQ(volume->used_bytes, 3'000'006u);
  EXPECT_TRUE(volume->writer.empty());

  api::EntriesQuery query;
  query.path = "data";
  auto page = admin_->list_entries("research", query, soon());
  ASSERT_OK(page);
  ASSERT_EQ(page->entries.size(), 2u);
  EXPECT_EQ(page->entries[0].path, "data/a.txt");
  EXPECT_EQ(page->entries[1].kind, "dir");
  auto usage = admin_->usage("research", {{}, 0, "data/sub"}, soon());
  ASSERT_OK(usage);
  EXPECT_EQ(usage->bytes, 3'000'000u);
  auto entry = admin_->stat("research", {{}, 0, "data/a.txt"}, soon());
  ASSERT_OK(entry);
  EXPECT_EQ(entry->size_bytes, 6u);
  EXPECT_CODE(Code::kPathNotFound, admin_->stat("research", {{}, 0, "data/b.txt"}, soon()));
  auto snapshots = admin_->list_snapshots("research", {}, soon());
  ASSERT_OK(snapshots);
  EXPECT_EQ(snapshots->snapshots.front().number, sent->snapshot);

  auto again = put("research", top + "/", "/data/");
  ASSERT_TRUE(again) << again.error().to_string();
  EXPECT_EQ(again->bytes_sent, 0u);

  auto source = transfer::make_api_remote(*admin_, "research");
  transfer::GetOptions options;
  options.remote = "data/";
  options.local = folder_.path() + "/out/";
  options.cache_dir = folder_.path() + "/cache";
  Silent silent;
  auto received = transfer::get(*source, options, silent, soon());
  ASSERT_TRUE(received) << received.error().to_string();
  EXPECT_EQ(received->files, 3u);
  EXPECT_EQ(std::system(("diff -r " + top + " " + options.local).c_str()), 0);

  auto removed = admin_->remove_paths("research", {{"data/sub"}, "no longer needed"}, soon());
  ASSERT_OK(removed);
  EXPECT_EQ(removed->files, 1u);
  EXPECT_GT(removed->snapshot, sent->snapshot);
  ASSERT_OK(instance_->run_tasks_once());
}

TEST_F(ServerTest, WhatWasSavedIsThereAfterARestart) {
  ASSERT_OK(admin_->create_volume({"research", {}, {}}, soon()));
  auto sent = put("research", write_tree() + "/", "/");
  ASSERT_TRUE(sent) << sent.error().to_string();
  std::string token = instance_->admin_token();
  EXPECT_CODE(Code::kBusy, Instance::start(settings_));
  instance_->stop(seconds(5));
  instance_.reset();
  start();
  EXPECT_EQ(instance_->admin_token(), token);
  auto usage = admin_->usage("research", {}, soon());
  ASSERT_OK(usage);
  EXPECT_EQ(usage->files, 3u);
  for (const char* name : {"/admin-token", "/url.key"}) {
    struct stat facts {};
    ASSERT_EQ(::stat((settings_.data_dir + name).c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777, 0600u) << name;
  }
}

TEST_F(ServerTest, OnlyWhoMay) {
  EXPECT_CODE(Code::kNotSignedIn, connect("")->list_volumes(soon()));
  EXPECT_CODE(Code::kTokenInvalid, connect("cairn_x")->list_volumes(soon()));
  ASSERT_OK(connect("")->version(soon()));
  auto who = admin_->whoami(soon());
  ASSERT_OK(who);
  EXPECT_EQ(who->role, "admin");

  ASSERT_OK(admin_->create_user({"bob", "member"}, soon()));
  auto created = admin_->create_token({"laptop", "bob", {}, {}}, soon());
  ASSERT_OK(created);
  auto bob = connect(created->secret);
  ASSERT_OK(admin_->create_volume({"mine", {}, {}}, soon()));
  EXPECT_CODE(Code::kVolumeNotFound, bob->get_volume("mine", soon()));
  EXPECT_CODE(Code::kNotAdmin, bob->list_users(soon()));
  EXPECT_CODE(Code::kNotAdmin, bob->create_token({"node", "", {"node"}, {}}, soon()));
  ASSERT_OK(bob->create_volume({"mine", {}, {}}, soon()));

  auto reading = bob->create_token({"reader", "", {"read"}, 60}, soon());
  ASSERT_OK(reading);
  auto reader = connect(reading->secret);
  ASSERT_OK(reader->get_volume("mine", soon()));
  EXPECT_CODE(Code::kNotAllowed, reader->create_volume({"other", {}, {}}, soon()));
  EXPECT_CODE(Code::kNotAllowed, reader->open_upload("mine", {"x", "", false, {}}, soon()));
  EXPECT_CODE(Code::kNotAllowed, reader->register_node({"n", "", "", 1, 1, 1, 1, {}}, soon()));

  auto node = admin_->create_token({"node", "", {"node"}, {}}, soon());
  ASSERT_OK(node);
  EXPECT_CODE(Code::kNotAllowed, connect(node->secret)->list_volumes(soon()));

  ASSERT_OK(bob->revoke_token(reading->token.id, soon()));
  EXPECT_CODE(Code::kTokenInvalid, reader->get_volume("mine", soon()));
}

TEST_F(ServerTest, BadRequestsNameWhatIsWrong) {
  auto unknown = send("POST", "/v1/volumes", R"({"name":"a","sise":1})");
  EXPECT_EQ(unknown.status, 400);
  EXPECT_EQ(code_of(unknown), Code::kRequestInvalid);
  EXPECT_NE(unknown.body.find("'sise'"), std::string::npos);
  EXPECT_EQ(code_of(send("GET", "/v1/nothing")), Code::kRouteNotFound);
  EXPECT_EQ(code_of(send("PATCH", "/v1/volumes")), Code::kMethodNotAllowed);
  EXPECT_EQ(code_of(send("GET", "/v1/runs?limt=1")), Code::kRequestInvalid);
  EXPECT_EQ(code_of(send("GET", "/v1/runs/xyz")), Code::kRequestInvalid);
  EXPECT_EQ(code_of(send("POST", "/v1/volumes", R"({"name":"a"})", {{"Cairn-Request-Id", "1"}})), Code::kRequestInvalid);
  EXPECT_EQ(code_of(send("GET", "/v1/volumes", "", {{"Cairn-Team", "nlp"}})), Code::kRequestInvalid);
  EXPECT_EQ(send("POST", "/v1/volumes", std::string(5 << 20, ' ')).status, 413);
  EXPECT_EQ(code_of(send("POST", "/v1/volumes", R"({"name":"Bad_Name"})")), Code::kVolumeNameInvalid);
}

TEST_F(ServerTest, TheSameRequestIdGivesTheSameAnswer) {
  ASSERT_OK(admin_->create_volume({"research", {}, {}}, soon()));
  net::HeaderList id{{"Cairn-Request-Id", std::string(32, 'a')}};
  auto first = send("DELETE", "/v1/volumes/research", "", id);
  ASSERT_EQ(first.status, 200) << first.body;
  auto second = send("DELETE", "/v1/volumes/research", "", id);
  EXPECT_EQ(second.status, 200);
  EXPECT_EQ(second.body, first.body);
  EXPECT_EQ(code_of(send("DELETE", "/v1/volumes/research", "", {{"Cairn-Request-Id", std::string(32, 'b')}})),
            Code::kVolumeNotFound);
  EXPECT_EQ(code_of(send("POST", "/v1/volumes", R"({"name":"x"})", id)), Code::kRequestIdReused);
  ASSERT_OK(admin_->undelete_volume("research", {}, soon()));

  // Opening an upload twice under one id gives one lease, also when both are under way at once.
  net::HeaderList open{{"Cairn-Request-Id", std::string(32, 'c')}};
  const std::string secret(codec::kSecretDigits, 'e');
  const std::string body = R"({"source":"here","secret":")" + secret + "\"}";
  std::vector<std::thread> threads;
  std::vector<net::HttpResponse> answers(4);
  for (auto& answer : answers) {
    threads.emplace_back([&] { answer = send("POST", "/v1/volumes/research/uploads", body, open); });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& answer : answers) {
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.body, answers[0].body);
    EXPECT_EQ(answer.body.find(secret), std::string::npos) << "answers are kept for days";
  }
  EXPECT_CODE(Code::kWriterLeaseHeld, connect(instance_->admin_token())->open_upload("research", {"elsewhere", "", false, {}}, soon()));
}

TEST_F(ServerTest, BreakingALeaseAgainByTheSameRequestSparesTheNextHolder) {
  ASSERT_OK(admin_->create_volume({"research", {}, {}}, soon()));
  ASSERT_OK(admin_->open_upload("research", {"here", "", false, {}}, soon()));
  net::HeaderList id{{"Cairn-Request-Id", std::string(32, 'd')}};
  EXPECT_EQ(send("POST", "/v1/volumes/research/break-lease", "", id).status, 200);
  ASSERT_OK(admin_->open_upload("research", {"elsewhere", "", false, {}}, soon()));
  EXPECT_EQ(send("POST", "/v1/volumes/research/break-lease", "", id).status, 200);
  EXPECT_CODE(Code::kWriterLeaseHeld, admin_->open_upload("research", {"a third place", "", false, {}}, soon()));
}

TEST_F(ServerTest, AnUploadNeedsASecretThatNobodyCanGuess) {
  ASSERT_OK(admin_->create_volume({"research", {}, {}}, soon()));
  for (const char* secret : {"", "abc", "ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789"}) {
    std::string body = R"({"source":"here","secret":")" + std::string(secret) + "\"}";
    EXPECT_EQ(code_of(send("POST", "/v1/volumes/research/uploads", body)), Code::kRequestInvalid) << secret;
  }
  EXPECT_EQ(code_of(send("POST", "/v1/volumes/research/uploads", R"({"source":"here"})")), Code::kRequestInvalid);
}

class PackTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    ASSERT_OK(admin_->create_volume({"research", {}, {}}, soon()));
    auto upload = admin_->open_upload("research", {"here:/data", "", false, {}}, soon());
    ASSERT_TRUE(upload) << upload.error().to_string();
    upload_ = *upload;
  }
  std::span<const uint8_t> bytes() const { return {reinterpret_cast<const uint8_t*>(text_.data()), text_.size()}; }
  api::PackUrl promise(uint32_t crc32c) {
    auto grant = admin_->request_packs(
        upload_.upload, {upload_.secret, {}, {{text_.size(), crc32c, api::PackKind::kChangeset}}}, soon());
    EXPECT_TRUE(grant) << grant.error().to_string();
    return grant ? grant->promised.at(0) : api::PackUrl();
  }

  std::string text_ = std::string(100'000, 'x');
  api::Upload upload_;
};

TEST_F(PackTest, OnePutOfExactlyTheseBytes) {
  api::PackUrl pack = promise(codec::crc32c(bytes()));
  EXPECT_CODE(Code::kRequestInvalid, admin_->put_object(pack.url, bytes().subspan(1), soon()));
  EXPECT_CODE(Code::kUrlInvalid, admin_->put_object(pack.url + "0", bytes(), soon()));
  ASSERT_OK(admin_->put_object(pack.url, bytes(), soon()));
  EXPECT_CODE(Code::kObjectExists, admin_->put_object(pack.url, bytes(), soon()));
  std::vector<uint8_t> out(10);
  EXPECT_CODE(Code::kUrlInvalid, admin_->get_object(pack.url, 0, out, soon()));  // a PUT's URL reads nothing
}

TEST_F(PackTest, OtherBytesAreRefusedAndLeaveNothing) {
  api::PackUrl pack = promise(codec::crc32c(bytes()) + 1);
  EXPECT_CODE(Code::kPackInvalid, admin_->put_object(pack.url, bytes(), soon()));
  EXPECT_CODE(Code::kObjectNotFound, admin_->request_packs(upload_.upload, {upload_.secret, {pack.pack}, {}}, soon()));
  size_t left = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(settings_.data_dir + "/store/tmp")) {
    left += entry.is_regular_file();
  }
  EXPECT_EQ(left, 0u);
}

TEST_F(PackTest, RangesComeFromTheFile) {
  auto sent = [&] {
    EXPECT_TRUE(admin_->close_upload(upload_.upload, {upload_.secret}, soon()));
    return put("research", write_tree() + "/", "/");
  }();
  ASSERT_TRUE(sent) << sent.error().to_string();
  auto upload = admin_->open_upload("research", {"here:/data", "", false, {}}, soon());
  ASSERT_OK(upload);
  // A second put that was not published leaves a pack to resume from: read it through its GET URL.
  upload_ = *upload;
  api::PackUrl pack = promise(codec::crc32c(bytes()));
  ASSERT_OK(admin_->put_object(pack.url, bytes(), soon()));
  auto pin = admin_->create_pin("research", {}, soon());
  ASSERT_OK(pin);
  auto listing = admin_->listing("research", {pin->pin, "", {}, 1 << 20}, soon());
  ASSERT_OK(listing);
  EXPECT_FALSE(listing->changeset.empty());
  EXPECT_CODE(Code::kObjectNotFound, admin_->request_urls("research", {pin->pin, {pack.pack}}, soon()));
  ASSERT_OK(admin_->delete_pin(pin->pin, soon()));
  EXPECT_CODE(Code::kPinNotFound, admin_->listing("research", {pin->pin, "", {}, 1 << 20}, soon()));
}

TEST_F(PackTest, ALostLeaseIsSaid) {
  auto taken = admin_->open_upload("research", {"elsewhere", upload_.secret, false, {}}, soon());
  ASSERT_OK(taken);
  EXPECT_GT(taken->fence, upload_.fence);
  EXPECT_CODE(Code::kLeaseLost, admin_->heartbeat_upload(upload_.upload, {upload_.secret}, soon()));
  ASSERT_OK(admin_->heartbeat_upload(taken->upload, {taken->secret}, soon()));
  ASSERT_OK(admin_->close_upload(taken->upload, {taken->secret}, soon()));
  ASSERT_OK(admin_->close_upload(taken->upload, {taken->secret}, soon()));
}

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
  EXPECT_EQ(waits_for(fake + two), "waits for 2 GPUs");
  EXPECT_EQ(waits_for("gpu_type = \"h200\"\n" + fake + two), "waits for 2 GPUs of type h200");
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

TEST(ObjectRoutesTest, APutHasAnEnd) {
  object::MemoryStore store;
  ManualClock clock;
  SignedUrls urls(codec::Bytes(SignedUrls::kSecretBytes, 1), clock);
  ObjectRoutes routes(store, urls);
  const codec::Bytes bytes = {1, 2, 3, 4};
  auto key = object::ObjectKey::of("s/1/p/1");
  std::string url = urls.put(key, bytes.size(), codec::crc32c(bytes)).text;
  http::RequestHead head;
  head.method = "PUT";
  head.raw_path = url.substr(0, url.find('?'));
  http::RoutePlan plan = routes.plan(head);
  http::Request request;
  request.raw_path = head.raw_path;
  request.raw_query = url.substr(url.find('?') + 1);
  request.content_length = bytes.size();
  request.deadline = Deadline::after(plan.time_limit, clock);
  auto sink = plan.open(request);
  ASSERT_TRUE(sink) << sink.error().to_string();
  std::span<const uint8_t> piece(bytes);
  ASSERT_OK((*sink)->write(piece.first(2)));
  clock.advance(plan.time_limit + seconds(1));
  EXPECT_FALSE((*sink)->write(piece.subspan(2)));
  EXPECT_NE((*sink)->finish().status, 200);
  EXPECT_EQ(store.object_count(), 0u);
}

TEST_F(ServerTest, ARestoredCatalogGoesOnPastWhatWasGivenOut) {
  ASSERT_OK(admin_->create_volume({"research", {}, {}}, soon()));
  auto stop = [&] {
    instance_->stop(seconds(5));
    instance_.reset();
  };
  stop();
  std::string catalog = settings_.data_dir + "/catalog.db";
  std::string backup = folder_.path() + "/backup.db";
  std::filesystem::copy_file(catalog, backup);
  start();
  auto lost = admin_->open_upload("research", {}, soon());
  ASSERT_OK(lost);
  stop();
  std::filesystem::copy_file(backup, catalog, std::filesystem::copy_options::overwrite_existing);
  auto instance = Instance::start(settings_, system_clock(), system_random(), true);
  ASSERT_TRUE(instance) << instance.error().to_string();
  instance_ = *std::move(instance);
  url_ = "http://127.0.0.1:" + std::to_string(instance_->port());
  admin_ = connect(instance_->admin_token());
  EXPECT_CODE(Code::kUploadNotFound, admin_->heartbeat_upload(lost->upload, {lost->secret}, soon()));
  auto next = admin_->open_upload("research", {}, soon());
  ASSERT_OK(next);
  EXPECT_GT(next->fence, lost->fence + (uint64_t{1} << 31));
}

TEST_F(ServerTest, AStoreIsForOneServer) {
  std::string under_way = folder_.path() + "/data/store/tmp/put";
  std::ofstream(under_way) << "half";
  config::ServerSettings other = settings_;
  other.data_dir = folder_.path() + "/other";
  other.store = folder_.path() + "/data/store";
  auto second = Instance::start(other);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::kBusy);
  EXPECT_NE(second.error().message().find("process"), std::string::npos) << second.error().to_string();
  EXPECT_TRUE(std::filesystem::exists(under_way));
  instance_->stop(seconds(1));
  instance_.reset();
  second = Instance::start(other);
  ASSERT_TRUE(second) << second.error().to_string();
  EXPECT_FALSE(std::filesystem::exists(under_way));
}

TEST_F(ServerTest, HealthAndMetrics) {
  EXPECT_EQ(send("GET", "/healthz", "", {}, false).status, 200);
  EXPECT_EQ(send("GET", "/metrics", "", {}, false).status, 401);
  auto metrics = send("GET", "/metrics");
  EXPECT_EQ(metrics.status, 200);
  EXPECT_NE(metrics.body.find("cairn_http_requests_total{status=\"200\"}"), std::string::npos);
}

TEST_F(ServerTest, StoppingEndsLongPolls) {
  auto token = admin_->create_token({"node", "", {"node"}, {}}, soon());
  ASSERT_OK(token);
  auto node = connect(token->secret);
  auto registered = node->register_node({"box", "0", "boot", 4, 1, 1, 1, {}}, soon());
  ASSERT_OK(registered);
  std::thread waiting([&] { (void)node->poll_node(registered->node, {{}, 1, 25}, Deadline::after(seconds(3))); });
  std::this_thread::sleep_for(milliseconds(200));
  auto before = system_clock().monotonic();
  instance_->stop(seconds(10));
  EXPECT_LT(system_clock().monotonic() - before, Duration(seconds(5)));
  waiting.join();
}

}  // namespace
}  // namespace cairn::server
