// Nodes: machines with an agent. A node registers under its name with a node token, polls for work, and is LOST when it was
// silent for RunSettings::node_silent of lease time (time in which servers were there to hear it).
//
// Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "base/gpu_wish.h"
#include "run/runs.h"

namespace cairn::run {

struct NodeFacts {
  std::string name;
  std::string version;
  std::string boot_id;
  int64_t cpus = 0;
  int64_t memory_bytes = 0;
  int64_t disk_total_bytes = 0;
  int64_t disk_free_bytes = 0;
  std::vector<GpuWish> gpus;  // type and count of each kind it has
};

struct NodeView {
  catalog::NodeRow node;
  int64_t runs = 0;  // attempts that have not ended
};

// An attempt that waits for its executor. The secret is new each time it is handed out; only its hash is stored.
struct Offer {
  RunId run;
  AttemptId attempt;
  std::string secret;
};
struct StopOrder {
  AttemptId attempt;
  int64_t grace_seconds = 60;
};
struct PollResult {
  std::vector<Offer> start;
  std::vector<StopOrder> stop;
  std::vector<AttemptId> forget;
  bool empty() const { return start.empty() && stop.empty() && forget.empty(); }
};

class Nodes {
 public:
  explicit Nodes(RunContext& context) : context_(context), clock_(context.storage.clock) {}

  // The same name again is the same node (its agent restarted); a removed one comes back.
  Result<catalog::NodeRow> register_node(const NodeFacts& facts);
  // What the node has to do now, given the attempts in its journals. Does not wait: the caller asks again.
  Result<PollResult> poll(NodeId id, const std::vector<AttemptId>& known, int64_t disk_free_bytes);
  // Whether poll would answer anything; a quick look that writes nothing.
  Result<bool> has_work(NodeId id, const std::vector<AttemptId>& known);
  Result<std::vector<NodeView>> list();
  // A draining node gets no new runs.
  Result<catalog::NodeRow> set_draining(const std::string& name, bool draining);
  // run_state_conflict while attempts have not ended.
  Status remove(const std::string& name);
  // Background: marks silent nodes LOST; answers how many.
  Result<int64_t> expire();

 private:
  RunContext& context_;
  catalog::CatalogClock clock_;
};

std::string format_gpus(const std::vector<GpuWish>& gpus);
std::vector<GpuWish> parse_gpus(std::string_view text);

}  // namespace cairn::run
