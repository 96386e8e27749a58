// The state tables, engines, mounts in commands, GPUs, and the choice of a node.
#include <set>

#include <gtest/gtest.h>

#include "run/engines.h"
#include "run/nodes.h"
#include "run/scheduler.h"
#include "run/states.h"

namespace cairn::run {
namespace {

template <class State>
std::set<State> reachable(State from, int count) {
  std::set<State> seen = {from};
  std::vector<State> todo = {from};
  while (!todo.empty()) {
    State at = todo.back();
    todo.pop_back();
    for (int i = 0; i < count; ++i) {
      auto next = static_cast<State>(i);
      if (allowed(at, next) && seen.insert(next).second) todo.push_back(next);
    }
  }
  return seen;
}

TEST(States, NamesComeBack) {
  for (int i = 0; i < kRunStates; ++i) EXPECT_EQ(run_state(name(static_cast<RunState>(i))), static_cast<RunState>(i));
  for (int i = 0; i < kAttemptStates; ++i) {
    EXPECT_EQ(attempt_state(name(static_cast<AttemptState>(i))), static_cast<AttemptState>(i));
  }
  for (int i = 0; i < kNodeStates; ++i) EXPECT_EQ(node_state(name(static_cast<NodeState>(i))), static_cast<NodeState>(i));
  EXPECT_EQ(run_state("running"), std::nullopt);
  EXPECT_EQ(attempt_state(""), std::nullopt);
}

TEST(States, FinalRunsStayWhatTheyAreAndEveryRunCanEnd) {
  for (int i = 0; i < kRunStates; ++i) {
    auto state = static_cast<RunState>(i);
    int ways_out = 0;
    for (int j = 0; j < kRunStates; ++j) ways_out += allowed(state, static_cast<RunState>(j));
    EXPECT_EQ(ways_out == 0, is_final(state)) << name(state);
    if (is_final(state)) continue;
    std::set<RunState> ends = reachable(state, kRunStates);
    for (RunState end : {RunState::kCompleted, RunState::kFailed, RunState::kStopped}) {
      EXPECT_TRUE(ends.contains(end)) << name(state) << " never becomes " << name(end);
    }
  }
  EXPECT_EQ(reachable(RunState::kQueued, kRunStates).size(), static_cast<size_t>(kRunStates));
}

TEST(States, TheTableSaysNoToWhatMustNotHappen) {
  EXPECT_FALSE(allowed(RunState::kQueued, RunState::kRunning));
  EXPECT_FALSE(allowed(RunState::kPending, RunState::kCompleted));
  EXPECT_FALSE(allowed(RunState::kSyncing, RunState::kRunning));
  EXPECT_FALSE(allowed(RunState::kLost, RunState::kRunning));
  EXPECT_FALSE(allowed(RunState::kQueued, RunState::kLost));
  EXPECT_FALSE(allowed(AttemptState::kEnded, AttemptState::kRunning));
  EXPECT_FALSE(allowed(AttemptState::kLost, AttemptState::kRunning));
  EXPECT_TRUE(allowed(AttemptState::kLost, AttemptState::kEnded));
  EXPECT_FALSE(allowed(NodeState::kRemoved, NodeState::kLost));
}

TEST(Engines, TheConfigChoosesAndTheErrorNamesWhatThereIs) {
  Engines engines;
  EXPECT_EQ(*choose_engine(engines, ""), "cairn");
  engines.templates["torchtune"] = {"tune", "run", "--config", "{config}", "output_dir={output}", "n={gpus}"};
  engines.templates["axolotl"] = {"axolotl", "{config}"};
  EXPECT_EQ(*choose_engine(engines, ""), "cairn");
  EXPECT_EQ(*choose_engine(engines, "torchtune"), "torchtune");
  engines.default_engine = "axolotl";
  EXPECT_EQ(*choose_engine(engines, "cairn"), "cairn");
  EXPECT_EQ(*choose_engine(engines, ""), "axolotl");
  auto unknown = choose_engine(engines, "nemo");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code(), Code::kConfigUnsupported);
  EXPECT_EQ(unknown.error().message(), "engine 'nemo' is not known here; engines here: cairn (built in), axolotl, torchtune");
  auto command = engine_command(engines, "torchtune", {"/c.toml", "/out", "/volume", 2});
  ASSERT_TRUE(command);
  EXPECT_EQ(*command, (std::vector<std::string>{"tune", "run", "--config", "/c.toml", "output_dir=/out", "n=2"}));
  EXPECT_FALSE(engine_command(engines, "gone", {}));
  EXPECT_EQ(*engine_command(engines, "cairn", {"/c.toml", "/out", "/volume", 2}),
            (std::vector<std::string>{"cairn-trainer", "/c.toml", "--volume-root", "/volume", "--output-dir", "/out"}));
}

TEST(Commands, OneArgumentRunsByTheShell) {
  EXPECT_EQ(shell_command({"a | b"}), (std::vector<std::string>{"/bin/sh", "-c", "a | b"}));
  EXPECT_EQ(shell_command({"a", "b c"}), (std::vector<std::string>{"a", "b c"}));
}

TEST(Commands, VolumesAreFoundInThem) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(mounts_in_command({"python", "t.py", "--data=/mnt/corpus/x", "/mnt/models"}), (Names{"corpus", "models"}));
  EXPECT_EQ(mounts_in_command({"cp /mnt/a/x /mnt/b-2/ && ls /mnt/a"}), (Names{"a", "b-2"}));
  EXPECT_EQ(mounts_in_command({"ls '/mnt/a'; cat \"/mnt/b\""}), (Names{"a", "b"}));
  EXPECT_EQ(mounts_in_command({"/data/mnt/x", "/mnt/", "/mnt", "/mnt/Upper", "/mnt/a_b", "/mnt/-a", "/mnt/$X", "/mnt/a.b", "$D/mnt/y"}),
            Names{});
  EXPECT_EQ(mounts_in_command({"/mnt/" + std::string(41, 'a')}), Names{});
}

TEST(Gpus, OfANodeAreWrittenAndRead) {
  std::vector<GpuWish> gpus = {{2, "nvidia-h200"}, {1, "we,ird:x"}};
  auto back = parse_gpus(format_gpus(gpus));
  ASSERT_EQ(back.size(), 2u);
  EXPECT_EQ(back[0].count, 2);
  EXPECT_EQ(back[1].type, "we-ird-x");
}

NodeLoad node(const std::string& node_name, int64_t runs, int64_t disk, const std::string& gpus, int64_t used) {
  NodeLoad load;
  load.node.id = NodeId::random(system_random());
  load.node.name = node_name;
  load.node.state = name(NodeState::kReady);
  load.node.disk_free_bytes = disk;
  load.node.gpus = gpus;
  load.runs = runs;
  load.gpus_used = used;
  return load;
}

TEST(Placement, TheEmptiestFittingNodeIsChosen) {
  std::vector<NodeLoad> nodes = {node("a", 1, 100, "", 0), node("b", 0, 100, "", 0), node("c", 0, 200, "h200:4", 2)};
  EXPECT_EQ(choose_node(nodes, {}, "").node, nodes[2].node.id);
  EXPECT_EQ(choose_node(nodes, {}, "a").node, nodes[0].node.id);
  EXPECT_EQ(choose_node(nodes, {2, ""}, "").node, nodes[2].node.id);
  Placement full = choose_node(nodes, {3, "h200"}, "");
  EXPECT_FALSE(full.node);
  EXPECT_NE(full.reason.find("waits for 3 GPUs of type h200"), std::string::npos) << full.reason;
  nodes[2].node.draining = true;
  EXPECT_EQ(choose_node(nodes, {}, "").node, nodes[1].node.id);
  EXPECT_FALSE(choose_node(nodes, {}, "nowhere").node);
  nodes[0].node.state = nodes[1].node.state = name(NodeState::kLost);
  EXPECT_EQ(choose_node(nodes, {}, "").reason, "waits for a node: none is ready");
}

TEST(Placement, WhatNoNodeCouldEverRunIsRefused) {
  EXPECT_TRUE(check_wish({}, {1, "h200"}, "a")) << "no node has registered yet";
  std::vector<catalog::NodeRow> nodes = {node("a", 0, 0, "", 0).node, node("b", 0, 0, "h200:4", 4).node};
  nodes[1].state = name(NodeState::kLost);
  EXPECT_TRUE(check_wish(nodes, {}, ""));
  EXPECT_TRUE(check_wish(nodes, {4, "h200"}, "")) << "in use and lost: it may wait";
  Status unknown = check_wish(nodes, {}, "c");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code(), Code::kNodeNotFound);
  for (const auto& [wish, where] : {std::pair<GpuWish, const char*>{{5, "h200"}, ""}, {{1, "h100"}, ""}, {{1, ""}, "a"}}) {
    Status refused = check_wish(nodes, wish, where);
    ASSERT_FALSE(refused) << wish.type;
    EXPECT_EQ(refused.error().code(), Code::kGpuTypeUnavailable);
  }
  EXPECT_NE(check_wish(nodes, {1, "h100"}, "").error().message().find("h200:4 (b)"), std::string::npos);
}

}  // namespace
}  // namespace cairn::run
