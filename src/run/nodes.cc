#include "run/nodes.h"

#include <algorithm>
#include <unordered_set>

#include <fmt/format.h>

#include "base/log.h"
#include "codec/hex.h"
#include "run/internal.h"

namespace cairn::run {
namespace {

constexpr size_t kKnownAttemptsMax = 1'000;

Status check_facts(const NodeFacts& facts) {
  bool name_ok = !facts.name.empty() && facts.name.size() <= 64 &&
                 std::all_of(facts.name.begin(), facts.name.end(), [](char c) {
                   return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
                          c == '_';
                 });
  if (!name_ok) {
    return Error(Code::kRequestInvalid, fmt::format("'{}' is no name for a node", facts.name),
                 "1 to 64 letters, digits, '-', '.' and '_'");
  }
  if (facts.version.size() > 64 || facts.boot_id.size() > 64 || facts.gpus.size() > 64 || facts.cpus < 0 ||
      facts.memory_bytes < 0 || facts.disk_total_bytes < 0 || facts.disk_free_bytes < 0) {
    return Error(Code::kRequestInvalid, "the node's facts are out of bounds");
  }
  return ok();
}

catalog::NodeRow row_of(const NodeFacts& facts) {
  catalog::NodeRow node;
  node.name = facts.name;
  node.version = facts.version;
  node.boot_id = facts.boot_id;
  node.cpus = facts.cpus;
  node.memory_bytes = facts.memory_bytes;
  node.disk_total_bytes = facts.disk_total_bytes;
  node.disk_free_bytes = facts.disk_free_bytes;
  node.gpus = format_gpus(facts.gpus);
  return node;
}

bool runs_somewhere(std::string_view attempt_state) { return attempt_state != name(AttemptState::kEnded); }

}  // namespace

std::string format_gpus(const std::vector<GpuWish>& gpus) {
  std::string text;
  for (const GpuWish& gpu : gpus) {
    std::string type = gpu.type;
    std::replace_if(type.begin(), type.end(), [](char c) { return c == ',' || c == ':' || c <= ' ' || c > '~'; }, '-');
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", type, gpu.count);
  }
  return text;
}

std::vector<GpuWish> parse_gpus(std::string_view text) {
  std::vector<GpuWish> gpus;
  while (!text.empty()) {
    size_t comma = std::min(text.find(','), text.size());
    std::string_view word = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    size_t colon = word.find(':');
    if (colon == std::string_view::npos) continue;
    GpuWish gpu;
    gpu.type = std::string(word.substr(0, colon));
    for (char c : word.substr(colon + 1)) {
      if (c >= '0' && c <= '9' && gpu.count < 1'000'000) gpu.count = gpu.count * 10 + (c - '0');
    }
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

Result<catalog::NodeRow> Nodes::register_node(const NodeFacts& facts) {
  CAIRN_CHECK_OK(check_facts(facts));
  NodeId fresh = NodeId::random(context_.storage.random);
  return context_.storage.db.transact([&](catalog::Tx& tx) -> Result<catalog::NodeRow> {
    catalog::NodeRow node = row_of(facts);
    CAIRN_TRY(node.seen_at, clock_.now(tx));
    CAIRN_TRY(node.seen_lease, clock_.lease_now(tx));
    CAIRN_TRY(std::optional<catalog::NodeRow> known, catalog::find_node_by_name(tx, facts.name));
    if (!known) {
      node.id = fresh;
      node.state = name(NodeState::kReady);
      node.registered_at = node.seen_at;
      CAIRN_CHECK_OK(catalog::insert_node(tx, node));
      return node;
    }
    node.id = known->id;
    CAIRN_TRY([[maybe_unused]] bool updated, catalog::update_node_facts(tx, node));
    if (known->state != name(NodeState::kReady)) {
      std::optional<NodeState> from = node_state(known->state);
      CAIRN_CHECK(from.has_value() && allowed(*from, NodeState::kReady));
      CAIRN_TRY([[maybe_unused]] bool moved, catalog::move_node(tx, node.id, known->state, name(NodeState::kReady)));
    }
    CAIRN_TRY(std::optional<catalog::NodeRow> stored, catalog::find_node(tx, node.id));
    CAIRN_CHECK(stored.has_value());
    return *std::move(stored);
  });
}

Result<PollResult> Nodes::poll(NodeId id, const std::vector<AttemptId>& known, int64_t disk_free_bytes) {
  if (known.size() > kKnownAttemptsMax) return Error(Code::kLimitExceeded, "a node has at most 1,000 attempts");
  return context_.storage.db.transact([&](catalog::Tx& tx) -> Result<PollResult> {
    CAIRN_TRY(std::optional<catalog::NodeRow> node, catalog::find_node(tx, id));
    if (!node || node->state == name(NodeState::kRemoved)) {
      return Error(Code::kNodeNotFound, "no node " + id.hex(), "the agent registers again");
    }
    CAIRN_TRY(Time now, clock_.now(tx));
    CAIRN_TRY(catalog::LeaseTime lease_now, clock_.lease_now(tx));
    CAIRN_TRY([[maybe_unused]] bool touched, catalog::touch_node(tx, id, disk_free_bytes, now, lease_now));
    if (node->state == name(NodeState::kLost)) {
      CAIRN_TRY([[maybe_unused]] bool moved, catalog::move_node(tx, id, node->state, name(NodeState::kReady)));
    }
    CAIRN_TRY(std::vector<catalog::AttemptRow> open, catalog::open_attempts(tx, id));
    std::unordered_set<AttemptId> on_node(known.begin(), known.end());
    PollResult result;
    for (const catalog::AttemptRow& attempt : open) {
      bool has_it = on_node.erase(attempt.id) > 0;
      bool offered = attempt.state == name(AttemptState::kOffered);
      if (offered && has_it) {
        // Its executor is starting.
        CAIRN_TRY([[maybe_unused]] bool seen, catalog::touch_attempt(tx, attempt.id, lease_now));
      } else if (offered) {
        std::string secret = codec::random_secret(context_.storage.random);
        CAIRN_TRY(bool stored, catalog::set_attempt_secret(tx, attempt.id, internal::secret_hash(secret)));
        if (stored) result.start.push_back(Offer{attempt.run, attempt.id, std::move(secret)});
      } else if (has_it) {
        CAIRN_TRY(std::optional<catalog::RunRow> run, catalog::find_run(tx, attempt.run));
        bool stale = attempt.state == name(AttemptState::kLost) || attempt.state == name(AttemptState::kSuperseded);
        if (run && (run->stop_requested || stale)) {
          result.stop.push_back(StopOrder{attempt.id, run->stop_requested ? run->stop_grace_seconds : run->grace_seconds});
        }
      }
    }
    // What the node has and the catalog has not, or has as ended.
    for (AttemptId attempt : known) {
      if (!on_node.contains(attempt)) continue;
      CAIRN_TRY(std::optional<catalog::AttemptRow> row, catalog::find_attempt(tx, attempt));
      if (!row || !runs_somewhere(row->state)) result.forget.push_back(attempt);
    }
    return result;
  });
}

Result<bool> Nodes::has_work(NodeId id, const std::vector<AttemptId>& known) {
  return context_.storage.db.read([&](catalog::Tx& tx) -> Result<bool> {
    CAIRN_TRY(std::vector<catalog::AttemptRow> open, catalog::open_attempts(tx, id));
    std::unordered_set<AttemptId> on_node(known.begin(), known.end());
    for (const catalog::AttemptRow& attempt : open) {
      bool has_it = on_node.erase(attempt.id) > 0;
      if (attempt.state == name(AttemptState::kOffered)) {
        if (!has_it) return true;
      } else if (has_it) {
        CAIRN_TRY(std::optional<catalog::RunRow> run, catalog::find_run(tx, attempt.run));
        if (run && run->stop_requested) return true;
      }
    }
    return false;
  });
}

Result<std::vector<NodeView>> Nodes::list() {
  return context_.storage.db.read([&](catalog::Tx& tx) -> Result<std::vector<NodeView>> {
    CAIRN_TRY(std::vector<catalog::NodeRow> nodes, catalog::list_nodes(tx));
    std::vector<NodeView> views;
    for (catalog::NodeRow& node : nodes) {
      CAIRN_TRY(std::vector<catalog::AttemptRow> open, catalog::open_attempts(tx, node.id));
      views.push_back(NodeView{std::move(node), static_cast<int64_t>(open.size())});
    }
    return views;
  });
}

Result<catalog::NodeRow> Nodes::set_draining(const std::string& node_name, bool draining) {
  return context_.storage.db.transact([&](catalog::Tx& tx) -> Result<catalog::NodeRow> {
    CAIRN_TRY(std::optional<catalog::NodeRow> node, catalog::find_node_by_name(tx, node_name));
    if (!node || node->state == name(NodeState::kRemoved)) {
      return Error(Code::kNodeNotFound, fmt::format("no node '{}'", node_name), "cairn nodes list");
    }
    CAIRN_TRY([[maybe_unused]] bool changed, catalog::set_node_draining(tx, node->id, draining));
    node->draining = draining;
    return *std::move(node);
  });
}

Status Nodes::remove(const std::string& node_name) {
  return context_.storage.db.transact([&](catalog::Tx& tx) -> Status {
    CAIRN_TRY(std::optional<catalog::NodeRow> node, catalog::find_node_by_name(tx, node_name));
    if (!node || node->state == name(NodeState::kRemoved)) {
      return Error(Code::kNodeNotFound, fmt::format("no node '{}'", node_name), "cairn nodes list");
    }
    CAIRN_TRY(std::vector<catalog::AttemptRow> open, catalog::open_attempts(tx, node->id));
    if (!open.empty()) {
      return Error(Code::kRunStateConflict, fmt::format("node '{}' still has {} runs to end or to sync", node_name, open.size()),
                   fmt::format("wait for them (cairn train list), or end them: cairn train stop {}", open.front().run.hex()));
    }
    CAIRN_TRY([[maybe_unused]] bool moved, catalog::move_node(tx, node->id, node->state, name(NodeState::kRemoved)));
    return ok();
  });
}

Result<int64_t> Nodes::expire() {
  return context_.storage.db.transact([&](catalog::Tx& tx) -> Result<int64_t> {
    CAIRN_TRY(catalog::LeaseTime lease_now, clock_.lease_now(tx));
    CAIRN_TRY(std::vector<catalog::NodeRow> silent,
              catalog::silent_nodes(tx, lease_now - context_.settings.node_silent));
    int64_t lost = 0;
    for (const catalog::NodeRow& node : silent) {
      CAIRN_TRY(bool moved, catalog::move_node(tx, node.id, name(NodeState::kReady), name(NodeState::kLost)));
      lost += moved;
    }
    return lost;
  });
}

}  // namespace cairn::run
