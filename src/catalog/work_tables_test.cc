// Contract of the tables of work: the same on both engines.
#include <gtest/gtest.h>

#include "base/random.h"
#include "catalog/attempts.h"
#include "catalog/nodes.h"
#include "catalog/run_logs.h"
#include "catalog/runs.h"
#include "testing/catalog_fixture.h"

namespace cairn::catalog {
namespace {

class WorkTablesTest : public cairn::testing::CatalogTest {
 protected:
  NodeRow node(const std::string& name) {
    NodeRow row;
    row.id = NodeId::random(random());
    row.name = name;
    row.state = "READY";
    row.version = "1";
    row.boot_id = "b";
    row.cpus = 8;
    row.memory_bytes = int64_t{1} << 40;
    row.disk_total_bytes = int64_t{1} << 50;
    row.disk_free_bytes = 5;
    row.gpus = "h200:8";
    row.registered_at = Time{7};
    row.seen_at = Time{8};
    row.seen_lease = LeaseTime{9};
    return row;
  }
  RunRow run(const std::string& state, int64_t created) {
    RunRow row;
    row.id = RunId::random(random());
    row.kind = "command";
    row.state = state;
    row.owner_id = UserId::random(random()).hex();
    row.user_name = "alice";
    row.created_at = Time{created};
    return row;
  }
  template <class Fn>
  void in_tx(Fn fn) {
    Status status = db().transact([&](Tx& tx) -> Status { return fn(tx); });
    ASSERT_TRUE(status) << status.error().to_string();
  }
};

CAIRN_INSTANTIATE_CATALOG(WorkTablesTest);

TEST_P(WorkTablesTest, NodesComeBackAsTheyWere) {
  NodeRow a = node("a");
  in_tx([&](Tx& tx) -> Status {
    CAIRN_CHECK_OK(insert_node(tx, a));
    CAIRN_TRY(std::optional<NodeRow> found, find_node(tx, a.id));
    EXPECT_EQ(found->name, "a");
    EXPECT_EQ(found->memory_bytes, a.memory_bytes);
    EXPECT_EQ(found->gpus, "h200:8");
    EXPECT_EQ(found->seen_lease, LeaseTime{9});
    EXPECT_FALSE(found->draining);
    CAIRN_TRY(std::optional<NodeRow> none, find_node_by_name(tx, "b"));
    EXPECT_FALSE(none);
    CAIRN_TRY(bool touched, touch_node(tx, a.id, 77, Time{20}, LeaseTime{21}));
    EXPECT_TRUE(touched);
    CAIRN_TRY(std::vector<NodeRow> quiet, silent_nodes(tx, LeaseTime{21}));
    EXPECT_TRUE(quiet.empty());
    CAIRN_TRY(quiet, silent_nodes(tx, LeaseTime{22}));
    EXPECT_EQ(quiet.size(), 1u);
    CAIRN_TRY(bool moved, move_node(tx, a.id, "LOST", "READY"));
    EXPECT_FALSE(moved);
    CAIRN_TRY(moved, move_node(tx, a.id, "READY", "REMOVED"));
    EXPECT_TRUE(moved);
    CAIRN_TRY(std::vector<NodeRow> all, list_nodes(tx));
    EXPECT_TRUE(all.empty());
    CAIRN_TRY(touched, touch_node(tx, a.id, 1, Time{1}, LeaseTime{1}));
    EXPECT_FALSE(touched);
    return ok();
  });
  // One name, one node.
  EXPECT_FALSE(db().transact([&](Tx& tx) { return insert_node(tx, node("a")); }));
  NodeRow wrong = node("w");
  wrong.state = "ready";
  EXPECT_FALSE(db().transact([&](Tx& tx) { return insert_node(tx, wrong); }));
}

TEST_P(WorkTablesTest, RunsKeepEveryByteOfTheirWords) {
  RunRow row = run("QUEUED", 1);
  row.command = {"sh", "", "-c", std::string("a b\n\xff\0x", 8), "ä"};
  row.environment = {{"A", ""}, {"B", "x=y z"}};
  row.exit_code = std::nullopt;
  std::vector<RunMountRow> mounts(2);
  mounts[0].volume = VolumeId::random(random());
  mounts[0].volume_name = "data";
  mounts[0].directory = "/volume";
  mounts[0].primary = true;
  mounts[1].volume = VolumeId::random(random());
  mounts[1].volume_name = "base";
  mounts[1].directory = "/mnt/base";
  mounts[1].read_only = true;
  mounts[1].snapshot = 3;
  in_tx([&](Tx& tx) -> Status {
    CAIRN_CHECK_OK(insert_run(tx, row, mounts));
    CAIRN_TRY(std::optional<RunRow> found, find_run(tx, row.id));
    EXPECT_EQ(found->command, row.command);
    EXPECT_EQ(found->environment, row.environment);
    EXPECT_EQ(found->node, std::nullopt);
    CAIRN_TRY(std::vector<RunMountRow> back, run_mounts(tx, row.id));
    EXPECT_EQ(back.size(), 2u);
    EXPECT_TRUE(back[0].primary);
    EXPECT_EQ(back[1].snapshot, std::optional<int64_t>(3));
    CAIRN_TRY(std::optional<RunRow> writer, run_writing(tx, mounts[0].volume, RunId(), false));
    EXPECT_TRUE(writer && writer->id == row.id);
    CAIRN_TRY(writer, run_writing(tx, mounts[0].volume, row.id, false));
    EXPECT_FALSE(writer);
    CAIRN_TRY(writer, run_writing(tx, mounts[0].volume, RunId(), true));
    EXPECT_FALSE(writer);  // still queued
    CAIRN_TRY(writer, run_writing(tx, mounts[1].volume, RunId(), false));
    EXPECT_FALSE(writer);  // read-only
    CAIRN_TRY(std::vector<RunRow> users, runs_using(tx, mounts[1].volume));
    EXPECT_EQ(users.size(), 1u);
    return ok();
  });
}

TEST_P(WorkTablesTest, AStateMovesOnceAndKeepsItsFirstStart) {
  RunRow row = run("PENDING", 1);
  in_tx([&](Tx& tx) -> Status {
    CAIRN_CHECK_OK(insert_run(tx, row, {}));
    RunMove move{"PENDING", "CREATING", std::nullopt, Time{5}, std::nullopt, std::nullopt};
    CAIRN_TRY(bool moved, move_run(tx, row.id, move));
    EXPECT_TRUE(moved);
    CAIRN_TRY(moved, move_run(tx, row.id, move));
    EXPECT_FALSE(moved);
    CAIRN_TRY(moved, move_run(tx, row.id, RunMove{"CREATING", "FAILED", "why", Time{6}, Time{7}, 3}));
    EXPECT_TRUE(moved);
    CAIRN_TRY(std::optional<RunRow> found, find_run(tx, row.id));
    EXPECT_EQ(found->started_at, std::optional<Time>(Time{5}));
    EXPECT_EQ(found->ended_at, std::optional<Time>(Time{7}));
    EXPECT_EQ(found->exit_code, std::optional<int64_t>(3));
    EXPECT_EQ(found->reason, "why");
    return ok();
  });
  EXPECT_FALSE(db().transact([&](Tx& tx) -> Status {
    CAIRN_TRY([[maybe_unused]] bool moved, move_run(tx, row.id, RunMove{"FAILED", "NONSENSE", {}, {}, {}, {}}));
    return ok();
  }));
}

TEST_P(WorkTablesTest, ListsPageFromTheNewest) {
  std::vector<RunRow> rows;
  in_tx([&](Tx& tx) -> Status {
    for (int i = 0; i < 7; ++i) {
      rows.push_back(run("QUEUED", i / 2));  // pairs made at the same moment
      rows.back().owner_id = rows.front().owner_id;
      CAIRN_CHECK_OK(insert_run(tx, rows.back(), {}));
    }
    CAIRN_CHECK_OK(insert_run(tx, run("QUEUED", 9), {}));  // somebody else's
    RunFilter filter;
    filter.owner_id = rows.front().owner_id;
    filter.limit = 2;
    std::vector<RunRow> seen;
    while (true) {
      CAIRN_TRY(std::vector<RunRow> page, list_runs(tx, filter));
      if (page.empty()) break;
      seen.insert(seen.end(), page.begin(), page.end());
      filter.before = std::pair(page.back().created_at, page.back().id);
    }
    EXPECT_EQ(seen.size(), 7u);
    for (size_t i = 1; i < seen.size(); ++i) {
      EXPECT_TRUE(std::pair(seen[i].created_at.us, seen[i].id) < std::pair(seen[i - 1].created_at.us, seen[i - 1].id));
    }
    CAIRN_TRY(std::vector<RunRow> queue, runs_in_state(tx, "QUEUED", 3));
    EXPECT_EQ(queue.size(), 3u);
    EXPECT_EQ(queue[0].created_at, Time{0});
    return ok();
  });
}

TEST_P(WorkTablesTest, AttemptsHoldWhatTheyWereGranted) {
  RunRow row = run("PENDING", 1);
  NodeRow on = node("a");
  AttemptRow attempt;
  attempt.id = AttemptId::random(random());
  attempt.run = row.id;
  attempt.number = 1;
  attempt.node = on.id;
  attempt.state = "OFFERED";
  attempt.opened_at = Time{3};
  attempt.seen_lease = LeaseTime{4};
  in_tx([&](Tx& tx) -> Status {
    CAIRN_CHECK_OK(insert_node(tx, on));
    CAIRN_CHECK_OK(insert_run(tx, row, {}));
    CAIRN_CHECK_OK(insert_attempt(tx, attempt));
    CAIRN_TRY(bool secret, set_attempt_secret(tx, attempt.id, "hash"));
    EXPECT_TRUE(secret);
    AttemptGrantRow grant;
    grant.position = 2;
    grant.volume = VolumeId::random(random());
    grant.lease = LeaseId::random(random());
    CAIRN_CHECK_OK(set_attempt_grants(tx, attempt.id, {grant}));
    grant.upload = UploadId::random(random());
    CAIRN_CHECK_OK(set_attempt_grants(tx, attempt.id, {grant}));
    CAIRN_TRY(std::vector<AttemptGrantRow> grants, attempt_grants(tx, attempt.id));
    EXPECT_EQ(grants.size(), 1u);
    EXPECT_EQ(grants[0].upload, grant.upload);
    EXPECT_EQ(grants[0].pin, std::nullopt);
    CAIRN_TRY(std::vector<AttemptRow> silent, silent_attempts(tx, LeaseTime{5}));
    EXPECT_EQ(silent.size(), 1u);
    CAIRN_TRY(bool moved, move_attempt(tx, attempt.id, "OFFERED", "CREATING", Time{6}, {}));
    EXPECT_TRUE(moved);
    CAIRN_TRY(secret, set_attempt_secret(tx, attempt.id, "other"));
    EXPECT_FALSE(secret);  // only while nobody started it
    CAIRN_TRY(bool claimed, set_attempt_log_seq(tx, attempt.id, 0, 5));
    EXPECT_TRUE(claimed);
    CAIRN_TRY(claimed, set_attempt_log_seq(tx, attempt.id, 0, 5));
    EXPECT_FALSE(claimed);
    CAIRN_TRY(std::vector<AttemptRow> open, open_attempts(tx, on.id));
    EXPECT_EQ(open.size(), 1u);
    CAIRN_TRY(moved, move_attempt(tx, attempt.id, "CREATING", "ENDED", {}, Time{9}));
    CAIRN_TRY(open, open_attempts(tx, on.id));
    EXPECT_TRUE(open.empty());
    return ok();
  });
  // A number is one attempt's.
  attempt.id = AttemptId::random(random());
  EXPECT_FALSE(db().transact([&](Tx& tx) { return insert_attempt(tx, attempt); }));
  attempt.number = 1001;
  EXPECT_FALSE(db().transact([&](Tx& tx) { return insert_attempt(tx, attempt); }));
}

TEST_P(WorkTablesTest, LogLinesAreNumberedTrimmedAndRemoved) {
  RunRow row = run("RUNNING", 1);
  in_tx([&](Tx& tx) -> Status {
    CAIRN_CHECK_OK(insert_run(tx, row, {}));
    for (int batch = 0; batch < 4; ++batch) {
      std::vector<LogRow> lines;
      for (int i = 0; i < 5; ++i) lines.push_back(LogRow{0, 0, i % 2 ? "stderr" : "stdout", Time{batch}, "línea"});
      CAIRN_TRY(int64_t last, append_log_lines(tx, row.id, 1, lines));
      EXPECT_EQ(last, 5 * (batch + 1));
    }
    CAIRN_TRY(std::vector<LogRow> lines, read_log_lines(tx, row.id, 3, "", 4));
    EXPECT_EQ(lines.size(), 4u);
    EXPECT_EQ(lines[0].seq, 4);
    EXPECT_EQ(lines[0].line, "línea");
    CAIRN_TRY(lines, read_log_lines(tx, row.id, 0, "stderr", 100));
    EXPECT_EQ(lines.size(), 8u);
    CAIRN_TRY(int64_t trimmed, trim_log_lines(tx, row.id, 6));
    EXPECT_EQ(trimmed, 14);
    CAIRN_TRY(lines, read_log_lines(tx, row.id, 0, "", 100));
    EXPECT_EQ(lines.size(), 6u);
    EXPECT_EQ(lines[0].seq, 15);
    CAIRN_TRY(int64_t removed, remove_old_logs(tx, Time{100}, 10));
    EXPECT_EQ(removed, 0);  // it has not ended
    CAIRN_TRY([[maybe_unused]] bool moved, move_run(tx, row.id, RunMove{"RUNNING", "FAILED", {}, {}, Time{50}, {}}));
    CAIRN_TRY(removed, remove_old_logs(tx, Time{100}, 10));
    EXPECT_EQ(removed, 1);
    CAIRN_TRY(removed, remove_old_logs(tx, Time{100}, 10));
    EXPECT_EQ(removed, 0);
    CAIRN_TRY(lines, read_log_lines(tx, row.id, 0, "", 100));
    EXPECT_TRUE(lines.empty());
    return ok();
  });
}

}  // namespace
}  // namespace cairn::catalog
