// The rules of runs on both engines, with real volumes in memory and a clock that moves when told.
#include <gtest/gtest.h>

#include "run/attempts.h"
#include "run/nodes.h"
#include "run/scheduler.h"
#include "volume/volume_fixture.h"

namespace cairn::run {
namespace {

class RunTest : public volume::VolumeTest {
 protected:
  void SetUp() override {
    VolumeTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    volumes_ = std::make_unique<volume::Volumes>(context());
    leases_ = std::make_unique<volume::Leases>(context());
    uploads_ = std::make_unique<volume::Uploads>(context());
    reads_ = std::make_unique<volume::Reads>(context());
    RunSettings settings;
    settings.engines.templates["tune"] = {"tune", "{config}", "{output}", "{volume}"};
    work_ = std::make_unique<RunContext>(RunContext{context(), *volumes_, *leases_, *uploads_, *reads_, settings});
    runs_ = std::make_unique<Runs>(*work_);
    nodes_ = std::make_unique<Nodes>(*work_);
    attempts_ = std::make_unique<Attempts>(*work_);
    scheduler_ = std::make_unique<Scheduler>(*work_);
  }
  void TearDown() override {
    runs_.reset(), nodes_.reset(), attempts_.reset(), scheduler_.reset(), work_.reset();
    reads_.reset(), uploads_.reset(), leases_.reset(), volumes_.reset();
    VolumeTest::TearDown();
  }

  NewRun command(const std::string& volume_name) {
    NewRun request;
    request.command = {"true"};
    if (!volume_name.empty()) {
      NewMount mount;
      mount.volume = volume_name;
      mount.primary = true;
      request.mounts.push_back(mount);
    }
    return request;
  }
  RunView make(const NewRun& request) {
    auto view = runs_->create(alice_, request);
    EXPECT_TRUE(view) << view.error().to_string();
    return view ? *view : RunView();
  }
  NodeId make_node(const std::string& node_name = "n1") {
    NodeFacts facts;
    facts.name = node_name;
    facts.boot_id = "b";
    facts.disk_free_bytes = 1000;
    auto node = nodes_->register_node(facts);
    EXPECT_TRUE(node) << node.error().to_string();
    return node->id;
  }
  std::string state(RunId id) { return runs_->get(UserId(), id)->run.state; }
  std::string reason(RunId id) { return runs_->get(UserId(), id)->run.reason; }
  // Placed, offered and started.
  StartedAttempt start(NodeId node) {
    auto placed = scheduler_->run_once();
    EXPECT_TRUE(placed) << placed.error().to_string();
    auto offers = nodes_->poll(node, known_, 1000);
    EXPECT_TRUE(offers) << offers.error().to_string();
    EXPECT_EQ(offers->start.size(), 1u);
    if (offers->start.size() != 1) return {};
    known_.push_back(offers->start[0].attempt);
    secret_ = offers->start[0].secret;
    auto started = attempts_->start(offers->start[0].attempt, secret_);
    EXPECT_TRUE(started) << started.error().to_string();
    return started ? *started : StartedAttempt();
  }
  Result<AttemptAnswer> beat(AttemptId attempt, RunState to, int64_t sequence = 0, std::vector<std::string> lines = {}) {
    AttemptSign sign;
    sign.state = to;
    sign.log_sequence = sequence;
    for (const std::string& line : lines) sign.lines.push_back(catalog::LogRow{0, 0, "stdout", Time{1}, line});
    return attempts_->heartbeat(attempt, secret_, sign);
  }
  AttemptEnd ended(RunState outcome, std::optional<int64_t> exit_code = {}) {
    AttemptEnd end;
    end.outcome = outcome;
    end.exit_code = exit_code;
    return end;
  }
  // What the executor's final sync does.
  volume::Publication publish(const volume::OpenUpload& upload, const cairn::testing::Contents& files) {
    auto request = prepare(upload, files);
    EXPECT_TRUE(request) << request.error().to_string();
    request->kind = "final";
    auto published = volume::Publisher(context()).publish(*request, soon());
    EXPECT_TRUE(published) << published.error().to_string();
    return published ? *published : volume::Publication();
  }

  std::unique_ptr<volume::Volumes> volumes_;
  std::unique_ptr<volume::Leases> leases_;
  std::unique_ptr<volume::Uploads> uploads_;
  std::unique_ptr<volume::Reads> reads_;
  std::unique_ptr<RunContext> work_;
  std::unique_ptr<Runs> runs_;
  std::unique_ptr<Nodes> nodes_;
  std::unique_ptr<Attempts> attempts_;
  std::unique_ptr<Scheduler> scheduler_;
  std::vector<AttemptId> known_;
  std::string secret_;
};

CAIRN_INSTANTIATE_CATALOG(RunTest);

// Its executor was killed between the publication and the note of its number.
TEST_P(RunTest, WhatWasPublishedIsKnownThoughTheNodeDoesNotSayIt) {
  make_volume("data");
  RunView view = make(command("data"));
  StartedAttempt started = start(make_node());
  ASSERT_TRUE(beat(started.attempt.id, RunState::kRunning));
  ASSERT_TRUE(beat(started.attempt.id, RunState::kSyncing));
  volume::Publication published = publish(*started.mounts[0].upload, {{"a", "1"}});
  AttemptEnd end = ended(RunState::kFailed);
  end.saved_step = 7;
  auto over = attempts_->finish(started.attempt.id, secret_, end);
  ASSERT_TRUE(over) << over.error().to_string();
  EXPECT_EQ(over->run.saved_snapshot, std::optional<int64_t>(published.snapshot));
  EXPECT_EQ(over->run.saved_step, std::optional<int64_t>(7));
  EXPECT_TRUE(over->run.saved_at);
}

TEST_P(RunTest, ARunGoesThroughItsStates) {
  volume::VolumeInfo data = make_volume("data");
  RunView view = make(command("data"));
  EXPECT_EQ(view.run.state, "QUEUED");
  EXPECT_EQ(*scheduler_->run_once(), 0);
  EXPECT_EQ(reason(view.run.id), "waits for a node: none is ready");
  NodeId node = make_node();
  StartedAttempt started = start(node);
  EXPECT_EQ(state(view.run.id), "CREATING");
  ASSERT_EQ(started.mounts.size(), 1u);
  ASSERT_TRUE(started.mounts[0].upload);
  EXPECT_EQ(started.mounts[0].mount.directory, "/volume");
  EXPECT_EQ(started.command, (std::vector<std::string>{"/bin/sh", "-c", "true"}));
  EXPECT_EQ(leases_->current(data.id).value()->holder, "run-" + view.run.id.hex() + ".1");
  AttemptId attempt = started.attempt.id;
  EXPECT_FALSE(beat(attempt, RunState::kRunning, 1, {"one", "two"})->stop);
  EXPECT_EQ(state(view.run.id), "RUNNING");
  // Sent again, with more: what is known is dropped. A gap is answered with what is there.
  EXPECT_EQ(beat(attempt, RunState::kRunning, 1, {"one", "two", "three"})->log_sequence, 3);
  EXPECT_EQ(beat(attempt, RunState::kRunning, 9, {"nine"})->log_sequence, 3);
  auto logs = runs_->logs(alice_.user, view.run.id, 0, "", 100);
  ASSERT_EQ(logs->lines.size(), 3u);
  EXPECT_EQ(logs->lines[2].line, "three");
  EXPECT_FALSE(logs->ended);
  ASSERT_TRUE(beat(attempt, RunState::kSyncing));
  EXPECT_EQ(state(view.run.id), "SYNCING");
  // An overtaken heartbeat does not take it back.
  ASSERT_TRUE(beat(attempt, RunState::kRunning));
  EXPECT_EQ(state(view.run.id), "SYNCING");
  volume::Publication published =
      publish(*started.mounts[0].upload, {{"runs/" + view.run.id.hex() + "/checkpoints/step_10/trainer/.metadata", "m"},
                                          {"runs/" + view.run.id.hex() + "/checkpoints/step_10/w", "weights"},
                                          {"runs/" + view.run.id.hex() + "/checkpoints/step_9/w", "torn"}});
  EXPECT_FALSE(published.side);
  AttemptEnd end = ended(RunState::kCompleted, 0);
  end.saved_snapshot = published.snapshot;
  end.saved_step = 10;
  auto over = attempts_->finish(attempt, secret_, end);
  ASSERT_TRUE(over) << over.error().to_string();
  EXPECT_EQ(over->run.state, "COMPLETED");
  EXPECT_EQ(over->run.exit_code, std::optional<int64_t>(0));
  EXPECT_EQ(over->run.saved_step, std::optional<int64_t>(10));
  ASSERT_TRUE(attempts_->finish(attempt, secret_, end));  // again is fine
  EXPECT_FALSE(*leases_->current(data.id));
  EXPECT_TRUE(runs_->logs(alice_.user, view.run.id, 3, "", 100)->ended);
  auto checkpoints = runs_->checkpoints(alice_.user, view.run.id);
  ASSERT_TRUE(checkpoints) << checkpoints.error().to_string();
  ASSERT_EQ(checkpoints->size(), 2u);
  EXPECT_EQ((*checkpoints)[0].step, 9);
  EXPECT_FALSE((*checkpoints)[0].complete);
  EXPECT_TRUE((*checkpoints)[1].complete);
  EXPECT_EQ((*checkpoints)[1].files, 2);
  EXPECT_EQ((*checkpoints)[1].bytes, 8);
  // The node forgets what is over.
  EXPECT_EQ(nodes_->poll(node, known_, 1)->forget, known_);
}

TEST_P(RunTest, AHeldVolumeRefusesNamingTheHolder) {
  volume::VolumeInfo data = make_volume("data");
  auto upload = uploads_->open(request_for(data.id));
  ASSERT_TRUE(upload);
  auto refused = runs_->create(alice_, command("data"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kWriterLeaseHeld);
  EXPECT_EQ(refused.error().holder(), "put from laptop");
  // As the CLI asks: a volume that may have to be made.
  NewRun making = command("data");
  making.mounts[0].create = true;
  auto also_refused = runs_->create(alice_, making);
  ASSERT_FALSE(also_refused);
  EXPECT_EQ(also_refused.error().holder(), "put from laptop");
  // A refused run makes no volume.
  NewMount fresh;
  fresh.volume = "fresh";
  fresh.create = true;
  making.mounts.insert(making.mounts.begin(), fresh);
  EXPECT_CODE(Code::kWriterLeaseHeld, runs_->create(alice_, making));
  EXPECT_CODE(Code::kVolumeNotFound, volumes_->find(alice_.user, "fresh"));
  // Reading it is no conflict.
  NewRun reader = command("");
  NewMount mount;
  mount.volume = "data";
  mount.read_only = true;
  reader.mounts.push_back(mount);
  EXPECT_TRUE(runs_->create(alice_, reader));
  // --queue waits, and says for whom.
  NewRun queued = command("data");
  queued.queue = true;
  RunView waiting = make(queued);
  NodeId node = make_node();
  EXPECT_EQ(*scheduler_->run_once(), 1);  // the reader
  EXPECT_EQ(state(waiting.run.id), "QUEUED");
  EXPECT_NE(reason(waiting.run.id).find("waits for volume 'data'"), std::string::npos) << reason(waiting.run.id);
  EXPECT_NE(reason(waiting.run.id).find("put from laptop"), std::string::npos);
  // A second run is refused because of the first, although that only waits.
  auto second = runs_->create(alice_, command("data"));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::kWriterLeaseHeld);
  ASSERT_TRUE(uploads_->close(upload->id, upload->lease.secret));
  second = runs_->create(alice_, command("data"));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().holder(), waiting.run.id.hex());
  EXPECT_EQ(*scheduler_->run_once(), 1);
  EXPECT_EQ(state(waiting.run.id), "PENDING");
  static_cast<void>(node);
}

TEST_P(RunTest, LeasesAreTakenAllOrNone) {
  volume::VolumeInfo a = make_volume("a");
  volume::VolumeInfo b = make_volume("b");
  NewRun request = command("a");
  NewMount mount;
  mount.volume = "b";
  request.mounts.push_back(mount);
  RunView view = make(request);
  auto upload = uploads_->open(request_for(b.id));
  ASSERT_TRUE(upload);
  make_node();
  EXPECT_EQ(*scheduler_->run_once(), 0);
  EXPECT_FALSE(*leases_->current(a.id));
  ASSERT_TRUE(uploads_->close(upload->id, upload->lease.secret));
  EXPECT_EQ(*scheduler_->run_once(), 1);
  EXPECT_TRUE(*leases_->current(a.id));
  EXPECT_TRUE(*leases_->current(b.id));
}

TEST_P(RunTest, AnOfferIsMadeAgainUntilTheNodeHasIt) {
  make_volume("data");
  RunView view = make(command("data"));
  NodeId node = make_node();
  ASSERT_EQ(*scheduler_->run_once(), 1);
  auto lost = nodes_->poll(node, {}, 1);  // this answer never arrives
  ASSERT_EQ(lost->start.size(), 1u);
  EXPECT_TRUE(*nodes_->has_work(node, {}));
  auto offer = nodes_->poll(node, {}, 1);
  ASSERT_EQ(offer->start.size(), 1u);
  EXPECT_EQ(offer->start[0].attempt, lost->start[0].attempt);
  EXPECT_FALSE(attempts_->start(lost->start[0].attempt, lost->start[0].secret));
  EXPECT_TRUE(nodes_->poll(node, {offer->start[0].attempt}, 1)->empty());
  EXPECT_FALSE(*nodes_->has_work(node, {offer->start[0].attempt}));
  EXPECT_TRUE(attempts_->start(offer->start[0].attempt, offer->start[0].secret));
  EXPECT_FALSE(attempts_->start(offer->start[0].attempt, ""));
}

TEST_P(RunTest, StartingAgainAnswersTheSameAndEndsNothing) {
  make_volume("data");
  make(command("data"));
  StartedAttempt first = start(make_node());
  const volume::OpenUpload& upload = *first.mounts[0].upload;
  auto second = attempts_->start(first.attempt.id, secret_);
  ASSERT_TRUE(second) << second.error().to_string();
  ASSERT_EQ(second->mounts.size(), first.mounts.size());
  const volume::OpenUpload& again = *second->mounts[0].upload;
  EXPECT_EQ(again.id, upload.id);
  EXPECT_EQ(again.lease.id, upload.lease.id);
  EXPECT_EQ(again.lease.secret, upload.lease.secret);
  EXPECT_EQ(again.lease.fence, upload.lease.fence);
  EXPECT_EQ(again.pin, upload.pin);
  EXPECT_EQ(again.base.number, upload.base.number);
  EXPECT_FALSE(attempts_->start(first.attempt.id, "another secret"));
  // A start that waited in a queue until the executor worked with a later one's answer, whose lease then lapsed.
  publish(upload, {{"a", "work"}});
  ASSERT_TRUE(attempts_->start(first.attempt.id, secret_));
  run_time(minutes(20));
  ASSERT_TRUE(uploads_->open(request_for(upload.volume)));
  EXPECT_CODE(Code::kLeaseLost, attempts_->start(first.attempt.id, secret_));
  EXPECT_TRUE(publish(upload, {{"b", "more work"}}).side);
  // Once it runs there is no starting again.
  ASSERT_TRUE(beat(first.attempt.id, RunState::kRunning));
  EXPECT_CODE(Code::kRunStateConflict, attempts_->start(first.attempt.id, secret_));
}

TEST_P(RunTest, StopEndsWhatWaitsAndDrainsWhatRuns) {
  volume::VolumeInfo data = make_volume("data");
  RunView queued = make(command("data"));
  EXPECT_EQ(runs_->stop(alice_.user, queued.run.id, {})->run.state, "STOPPED");
  EXPECT_CODE(Code::kRunStateConflict, runs_->stop(alice_.user, queued.run.id, {}));
  NodeId node = make_node();
  RunView pending = make(command("data"));
  ASSERT_EQ(*scheduler_->run_once(), 1);
  auto offer = nodes_->poll(node, {}, 1);
  EXPECT_EQ(runs_->stop(alice_.user, pending.run.id, {})->run.state, "STOPPED");
  EXPECT_FALSE(*leases_->current(data.id));
  EXPECT_FALSE(attempts_->start(offer->start[0].attempt, offer->start[0].secret));
  EXPECT_TRUE(attempts_->finish(offer->start[0].attempt, offer->start[0].secret, ended(RunState::kStopped)));
  RunView running = make(command("data"));
  StartedAttempt started = start(node);
  ASSERT_TRUE(beat(started.attempt.id, RunState::kRunning));
  EXPECT_CODE(Code::kRunNotFound, runs_->stop(bob_.user, running.run.id, {}));
  EXPECT_EQ(runs_->stop(alice_.user, running.run.id, 7)->run.state, "RUNNING");
  EXPECT_TRUE(beat(started.attempt.id, RunState::kRunning)->stop);
  EXPECT_EQ(beat(started.attempt.id, RunState::kRunning)->grace_seconds, 7);
  ASSERT_EQ(nodes_->poll(node, {started.attempt.id}, 1)->stop.size(), 1u);
  ASSERT_TRUE(attempts_->finish(started.attempt.id, secret_, ended(RunState::kStopped, 143)));
  EXPECT_EQ(state(running.run.id), "STOPPED");
}

TEST_P(RunTest, ASilentAttemptIsLostAndWhatComesBackIsPublishedWhileTheLeaseIsItsOwn) {
  make_volume("data");
  RunView view = make(command("data"));
  StartedAttempt started = start(make_node());
  ASSERT_TRUE(beat(started.attempt.id, RunState::kRunning));
  clock().advance(hours(8));  // an outage of the server is no silence
  EXPECT_EQ(*attempts_->expire(), 0);
  run_time(minutes(6));
  EXPECT_EQ(*attempts_->expire(), 1);
  EXPECT_EQ(state(view.run.id), "LOST");
  EXPECT_EQ(*attempts_->expire(), 0);
  // It comes back: told to stop, publishes, reports.
  EXPECT_TRUE(beat(started.attempt.id, RunState::kRunning)->stop);
  EXPECT_EQ(state(view.run.id), "LOST");
  EXPECT_FALSE(publish(*started.mounts[0].upload, {{"late", "work"}}).side);
  auto over = attempts_->finish(started.attempt.id, secret_, ended(RunState::kFailed));
  ASSERT_TRUE(over) << over.error().to_string();
  EXPECT_EQ(over->run.state, "LOST");
  EXPECT_NE(over->run.reason.find("came back"), std::string::npos);
}

TEST_P(RunTest, WhatComesBackTooLateGoesAside) {
  volume::VolumeInfo data = make_volume("data");
  make(command("data"));
  StartedAttempt started = start(make_node());
  ASSERT_TRUE(beat(started.attempt.id, RunState::kRunning));
  run_time(minutes(20));
  ASSERT_EQ(*attempts_->expire(), 1);
  // The lease is past its time, so the next run may have it.
  RunView next = make(command("data"));
  make_node();
  EXPECT_EQ(*scheduler_->run_once(), 1);
  EXPECT_EQ(state(next.run.id), "PENDING");
  volume::Publication late = publish(*started.mounts[0].upload, {{"late", "work"}});
  EXPECT_TRUE(late.side);
  EXPECT_EQ(late.side_reason, "lease_lost");
  EXPECT_EQ(client().read(data.id)->count("late"), 0u);
}

TEST_P(RunTest, AfterARebootNothingGoesOverTheHead) {
  volume::VolumeInfo data = make_volume("data");
  make(command("data"));
  StartedAttempt started = start(make_node());
  ASSERT_TRUE(beat(started.attempt.id, RunState::kRunning));
  AttemptSign sign;
  sign.state = RunState::kSyncing;
  sign.after_reboot = true;
  ASSERT_TRUE(attempts_->heartbeat(started.attempt.id, secret_, sign));
  ASSERT_TRUE(attempts_->heartbeat(started.attempt.id, secret_, sign));
  EXPECT_TRUE(publish(*started.mounts[0].upload, {{"doubtful", "zeros"}}).side);
  EXPECT_TRUE(client().read(data.id)->empty());
}

TEST_P(RunTest, AnOfferNobodyTakesGoesBackToTheQueue) {
  volume::VolumeInfo data = make_volume("data");
  RunView view = make(command("data"));
  NodeId gone = make_node("gone");
  ASSERT_EQ(*scheduler_->run_once(), 1);
  run_time(minutes(3));
  EXPECT_EQ(*nodes_->expire(), 1);
  EXPECT_EQ(*attempts_->expire(), 1);
  EXPECT_EQ(state(view.run.id), "QUEUED");
  EXPECT_FALSE(*leases_->current(data.id));
  EXPECT_EQ(*scheduler_->run_once(), 0);  // the node is lost
  NodeId other = make_node("other");
  StartedAttempt started = start(other);
  EXPECT_EQ(started.attempt.number, 2);
  // The lost one is ready again as soon as it polls.
  ASSERT_TRUE(nodes_->poll(gone, {}, 1));
  EXPECT_EQ(nodes_->list()->at(0).node.state, "READY");
}

TEST_P(RunTest, ARunThatNoNodeEverStartsFailsAtTheLimit) {
  auto workspace = volumes_->create_workspace(alice_, 1 << 20);
  ASSERT_TRUE(workspace) << workspace.error().to_string();
  NewRun request = command("");
  request.workspace = workspace->name;
  RunView view = make(request);
  NodeId node = make_node();
  auto offered_before = [&](int64_t times) {
    ASSERT_TRUE(db().transact([&](catalog::Tx& tx) {
      return tx.update("update runs set attempt = ?2 where id = ?1", {view.run.id.hex(), times});
    }));
  };
  offered_before(999);
  EXPECT_EQ(*scheduler_->run_once(), 1);  // the last one there can be
  run_time(minutes(3));
  EXPECT_EQ(*attempts_->expire(), 1);
  EXPECT_EQ(state(view.run.id), "QUEUED");
  ASSERT_TRUE(nodes_->poll(node, {}, 1));
  EXPECT_EQ(*scheduler_->run_once(), 0);
  EXPECT_EQ(state(view.run.id), "FAILED");
  EXPECT_NE(reason(view.run.id).find("1000 times"), std::string::npos);
  EXPECT_FALSE(volumes_->find(alice_.user, workspace->name));
}

TEST_P(RunTest, DrainingNodesGetNothingAndLeaveWhenEmpty) {
  make_volume("data");
  NodeId node = make_node();
  make(command("data"));
  StartedAttempt started = start(node);
  ASSERT_TRUE(nodes_->set_draining("n1", true));
  EXPECT_CODE(Code::kRunStateConflict, nodes_->remove("n1"));
  RunView other = make(command(""));
  EXPECT_EQ(*scheduler_->run_once(), 0);
  ASSERT_TRUE(beat(started.attempt.id, RunState::kRunning));
  ASSERT_TRUE(attempts_->finish(started.attempt.id, secret_, ended(RunState::kCompleted, 0)));
  ASSERT_TRUE(nodes_->remove("n1"));
  EXPECT_CODE(Code::kNodeNotFound, nodes_->poll(node, {}, 1));
  EXPECT_CODE(Code::kNodeNotFound, nodes_->set_draining("n1", true));
  static_cast<void>(other);
}

TEST_P(RunTest, VolumesNamedInTheCommandAreMadeAndMounted) {
  NewRun request = command("");
  request.command = {"cp /mnt/fresh/a /mnt/second/b"};
  RunView view = make(request);
  ASSERT_EQ(view.mounts.size(), 2u);
  EXPECT_EQ(view.mounts[0].volume_name, "fresh");
  EXPECT_EQ(view.mounts[0].directory, "/mnt/fresh");
  EXPECT_TRUE(volumes_->find(alice_.user, "fresh"));
  EXPECT_EQ(view.primary(), nullptr);
  // Deleting it now says what uses it.
  volumes_->add_usage_probe(Runs::uses);
  EXPECT_CODE(Code::kVolumeInUse, volumes_->remove(alice_.user, "fresh", false));
}

TEST_P(RunTest, RequestsAreChecked) {
  make_volume("data");
  auto code = [&](const NewRun& request) {
    auto result = runs_->create(alice_, request);
    return result ? std::string("ok") : std::string(wire_name(result.error().code()));
  };
  NewRun request = command("absent");
  EXPECT_EQ(code(request), "volume_not_found");
  request = command("data");
  request.command.clear();
  EXPECT_EQ(code(request), "request_invalid");
  for (const char* directory : {"/usr/x", "/", "relative", "/mnt", "/mnt/../etc", "/proc/x", "/volume/x", "/mnt/a//b", "/mnt/data/x"}) {
    request = command("data");
    make_volume("second");
    NewMount mount;
    mount.volume = "second";
    mount.directory = directory;
    request.mounts.push_back(mount);
    EXPECT_EQ(code(request), "usage") << directory;
  }
  request = command("data");
  request.mounts.push_back(request.mounts[0]);
  EXPECT_EQ(code(request), "usage");
  request = command("data");
  request.mounts[0].shared = true;
  EXPECT_EQ(code(request), "config_unsupported");
  request = command("data");
  request.environment["CAIRN_RUN_ID"] = "x";
  EXPECT_EQ(code(request), "usage");
  request = command("data");
  request.environment["A B"] = "x";
  EXPECT_EQ(code(request), "usage");
  request = command("data");
  request.kind = "train";
  request.config = "x = 1";
  request.engine = "other";
  EXPECT_EQ(code(request), "config_unsupported");
  request.engine = "tune";
  request.config_name = "sft.toml";
  RunView view = make(request);
  EXPECT_EQ(view.run.engine, "tune");
  StartedAttempt started = start(make_node());
  std::string output = "/volume/runs/" + view.run.id.hex();
  EXPECT_EQ(started.command, (std::vector<std::string>{"tune", output + "/configs/sft.toml", output, "/volume"}));
}

TEST_P(RunTest, ReadOnlyMountsPinAndShareAndWorkspacesGoAtTheEnd) {
  volume::VolumeInfo base = make_volume("base");
  ASSERT_TRUE(client().put_files(base.id, alice_.user, {{"w", "one"}}));
  ASSERT_TRUE(client().put_files(base.id, alice_.user, {{"w", "two"}}));
  auto workspace = volumes_->create_workspace(alice_, 1 << 20);
  ASSERT_TRUE(workspace) << workspace.error().to_string();
  NewRun request = command("");
  NewMount mount;
  mount.volume = "base";
  mount.read_only = true;
  mount.snapshot = 1;
  request.mounts.push_back(mount);
  request.workspace = workspace->name;
  RunView view = make(request);
  StartedAttempt started = start(make_node());
  ASSERT_EQ(started.mounts.size(), 2u);
  EXPECT_EQ(started.mounts[0].base.number, 1);
  EXPECT_FALSE(started.mounts[0].upload);
  EXPECT_TRUE(started.mounts[1].mount.workspace);
  EXPECT_TRUE(reads_->renew(started.mounts[0].pin));
  EXPECT_FALSE(*leases_->current(base.id));
  ASSERT_TRUE(beat(started.attempt.id, RunState::kRunning));
  ASSERT_TRUE(attempts_->finish(started.attempt.id, secret_, ended(RunState::kCompleted, 0)));
  EXPECT_FALSE(reads_->renew(started.mounts[0].pin));
  EXPECT_FALSE(volumes_->find(alice_.user, workspace->name));
  EXPECT_EQ(state(view.run.id), "COMPLETED");
}

TEST_P(RunTest, ListsArePagedAndPrivate) {
  std::vector<RunId> made;
  for (int i = 0; i < 5; ++i) {
    clock().advance(seconds(1));
    made.push_back(make(command("")).run.id);
  }
  auto first = runs_->list(alice_.user, {}, 3);
  ASSERT_EQ(first->size(), 3u);
  EXPECT_EQ(first->at(0).run.id, made[4]);
  auto rest = runs_->list(alice_.user, first->back().run.id, 3);
  ASSERT_EQ(rest->size(), 2u);
  EXPECT_EQ(rest->at(1).run.id, made[0]);
  EXPECT_TRUE(runs_->list(bob_.user, {}, 3)->empty());
  EXPECT_CODE(Code::kRunNotFound, runs_->get(bob_.user, made[0]));
  EXPECT_CODE(Code::kRunNotFound, runs_->logs(bob_.user, made[0], 0, "", 1));
}

}  // namespace
}  // namespace cairn::run
