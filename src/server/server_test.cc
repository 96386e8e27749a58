#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include <sys/stat.h>

#include "codec/hex.h"
#include "server/server_fixture.h"
#include "transfer/get.h"

namespace cairn::server {
namespace {

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
  EXPECT_EQ(code_of(send("GET", "/v1/volumes", "", {{"Cairn-Team", "nlp"}})), Code::kUsage);
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

