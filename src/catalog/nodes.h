// The table of nodes. Functions on one transaction; states are the words of run/states.h, which also says which changes are
// allowed. `gpus` is "TYPE:N" words with commas between them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "catalog/catalog_clock.h"
#include "catalog/db.h"

namespace cairn::catalog {

struct NodeRow {
  NodeId id;
  std::string name;
  std::string state;
  bool draining = false;
  std::string version;
  std::string boot_id;
  int64_t cpus = 0;
  int64_t memory_bytes = 0;
  int64_t disk_total_bytes = 0;
  int64_t disk_free_bytes = 0;
  std::string gpus;
  Time registered_at;
  Time seen_at;
  LeaseTime seen_lease;
};

// The constraint nodes_name_unique speaks when the name is taken.
Status insert_node(Tx& tx, const NodeRow& node);
Result<std::optional<NodeRow>> find_node(Tx& tx, NodeId id);
Result<std::optional<NodeRow>> find_node_by_name(Tx& tx, std::string_view name);
// By name, without REMOVED ones.
Result<std::vector<NodeRow>> list_nodes(Tx& tx);
// Facts, boot id and the time it was seen. False when the node is not there.
Result<bool> update_node_facts(Tx& tx, const NodeRow& node);
Result<bool> touch_node(Tx& tx, NodeId id, int64_t disk_free_bytes, Time now, LeaseTime lease_now);
// True when the node was in `from`.
Result<bool> move_node(Tx& tx, NodeId id, std::string_view from, std::string_view to);
Result<bool> set_node_draining(Tx& tx, NodeId id, bool draining);
// READY nodes whose last sign is before `before`.
Result<std::vector<NodeRow>> silent_nodes(Tx& tx, LeaseTime before);

}  // namespace cairn::catalog
