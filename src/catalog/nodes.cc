#include "catalog/nodes.h"

namespace cairn::catalog {
namespace {

#define CAIRN_NODE_COLUMNS                                                                                     \
  "id, name, state, draining, version, boot_id, cpus, memory_bytes, disk_total_bytes, disk_free_bytes, gpus, " \
  "registered_us, seen_us, seen_lease_us"

Result<NodeRow> node_of(const Row& row) {
  NodeRow node;
  CAIRN_TRY(node.id, row.id<NodeId>(0));
  node.name = row.text(1);
  node.state = row.text(2);
  node.draining = row.boolean(3);
  node.version = row.text(4);
  node.boot_id = row.text(5);
  node.cpus = row.integer(6);
  node.memory_bytes = row.integer(7);
  node.disk_total_bytes = row.integer(8);
  node.disk_free_bytes = row.integer(9);
  node.gpus = row.text(10);
  node.registered_at = row.time(11);
  node.seen_at = row.time(12);
  node.seen_lease = LeaseTime{row.integer(13)};
  return node;
}

Result<std::vector<NodeRow>> nodes_of(const Rows& rows) {
  std::vector<NodeRow> nodes;
  nodes.reserve(rows.size());
  for (const Row& row : rows) {
    CAIRN_TRY(NodeRow node, node_of(row));
    nodes.push_back(std::move(node));
  }
  return nodes;
}

Result<std::optional<NodeRow>> maybe_node(const std::optional<Row>& row) {
  if (!row) return std::optional<NodeRow>();
  CAIRN_TRY(NodeRow node, node_of(*row));
  return std::optional<NodeRow>(std::move(node));
}

Result<bool> changed_one(Result<int64_t> affected) {
  if (!affected) return std::move(affected).error();
  return *affected == 1;
}

}  // namespace

Status insert_node(Tx& tx, const NodeRow& node) {
  auto done = tx.update("insert into nodes (" CAIRN_NODE_COLUMNS
                        ") values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
                        {node.id.hex(), node.name, node.state, int64_t{node.draining}, node.version, node.boot_id, node.cpus,
                         node.memory_bytes, node.disk_total_bytes, node.disk_free_bytes, node.gpus, node.registered_at.us,
                         node.seen_at.us, node.seen_lease.us});
  if (!done) return std::move(done).error();
  return ok();
}

Result<std::optional<NodeRow>> find_node(Tx& tx, NodeId id) {
  CAIRN_TRY(std::optional<Row> row, tx.query_one("select " CAIRN_NODE_COLUMNS " from nodes where id = ?1", {id.hex()}));
  return maybe_node(row);
}

Result<std::optional<NodeRow>> find_node_by_name(Tx& tx, std::string_view name) {
  CAIRN_TRY(std::optional<Row> row,
            tx.query_one("select " CAIRN_NODE_COLUMNS " from nodes where name = ?1", {std::string(name)}));
  return maybe_node(row);
}

Result<std::vector<NodeRow>> list_nodes(Tx& tx) {
  CAIRN_TRY(Rows rows,
            tx.query("select " CAIRN_NODE_COLUMNS " from nodes where state <> 'REMOVED' order by name limit 100000"));
  return nodes_of(rows);
}

Result<bool> update_node_facts(Tx& tx, const NodeRow& node) {
  return changed_one(
      tx.update("update nodes set version = ?2, boot_id = ?3, cpus = ?4, memory_bytes = ?5, disk_total_bytes = ?6, "
                "disk_free_bytes = ?7, gpus = ?8, seen_us = ?9, seen_lease_us = ?10 where id = ?1",
                {node.id.hex(), node.version, node.boot_id, node.cpus, node.memory_bytes, node.disk_total_bytes,
                 node.disk_free_bytes, node.gpus, node.seen_at.us, node.seen_lease.us}));
}

Result<bool> touch_node(Tx& tx, NodeId id, int64_t disk_free_bytes, Time now, LeaseTime lease_now) {
  return changed_one(
      tx.update("update nodes set disk_free_bytes = ?2, seen_us = ?3, seen_lease_us = ?4 where id = ?1 and state <> 'REMOVED'",
                {id.hex(), disk_free_bytes, now.us, lease_now.us}));
}

Result<bool> move_node(Tx& tx, NodeId id, std::string_view from, std::string_view to) {
  return changed_one(tx.update("update nodes set state = ?3 where id = ?1 and state = ?2",
                               {id.hex(), std::string(from), std::string(to)}));
}

Result<bool> set_node_draining(Tx& tx, NodeId id, bool draining) {
  return changed_one(tx.update("update nodes set draining = ?2 where id = ?1", {id.hex(), int64_t{draining}}));
}

Result<std::vector<NodeRow>> silent_nodes(Tx& tx, LeaseTime before) {
  CAIRN_TRY(Rows rows, tx.query("select " CAIRN_NODE_COLUMNS
                                " from nodes where state = 'READY' and seen_lease_us < ?1 order by id limit 1000",
                                {before.us}));
  return nodes_of(rows);
}

}  // namespace cairn::catalog
