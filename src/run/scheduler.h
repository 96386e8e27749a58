// Placement: takes queued runs in the order they came, chooses a node, takes all of the run's leases in one transaction and
// opens its first attempt. A run whose volumes are held or for which no node has room stays queued, with the reason.
//
// Thread-safe; several servers may schedule at once.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/gpu_wish.h"
#include "run/runs.h"

namespace cairn::run {

struct NodeLoad {
  catalog::NodeRow node;
  int64_t runs = 0;
  int64_t gpus_used = 0;
};

// The node for a run, or why there is none. Prefers the one with the fewest runs, then the most free disk, then the name.
struct Placement {
  std::optional<NodeId> node;
  std::string reason;
};
Placement choose_node(const std::vector<NodeLoad>& nodes, const GpuWish& gpu, std::string_view wanted_node);

// Refuses what none of the registered nodes could run even when idle: node_not_found, gpu_type_unavailable with what there is.
// Any wish may wait while no node has registered yet.
Status check_wish(const std::vector<catalog::NodeRow>& nodes, const GpuWish& gpu, std::string_view wanted_node);

class Scheduler {
 public:
  explicit Scheduler(RunContext& context) : context_(context), clock_(context.storage.clock) {}
  // One pass over the queue; answers how many runs were placed.
  Result<int64_t> run_once();

 private:
  Result<std::vector<catalog::AttemptGrantRow>> take_leases(catalog::Tx& tx, const catalog::RunRow& run, int64_t attempt,
                                                            std::string& taking);
  Result<bool> place(catalog::Tx& tx, RunId id, AttemptId attempt_id, std::string& reason, std::string& taking);
  // A run that can never start: FAILED, its workspace gone.
  Status fail(RunId id, const std::string& why);

  RunContext& context_;
  catalog::CatalogClock clock_;
};

}  // namespace cairn::run
