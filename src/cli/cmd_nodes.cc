#include <fmt/core.h>

#include "cli/commands.h"
#include "cli/json_text.h"

namespace cairn::cli {
namespace {

std::string node_json(const api::Node& node) {
  return JsonText()
      .add("id", node.id.hex())
      .add("name", node.name)
      .add("state", node.state)
      .add("version", node.version)
      .add("cpus", node.cpus)
      .add("memory_bytes", node.memory_bytes)
      .add("disk_total_bytes", node.disk_total_bytes)
      .add("disk_free_bytes", node.disk_free_bytes)
      .add("runs", node.runs)
      .add("seen_at", to_rfc3339(node.seen_at))
      .str();
}

}  // namespace

void add_nodes(Verb root) {
  Verb nodes = root.add("nodes", "The machines that take runs");
  nodes.add("list", "List nodes, what they have and what they do").run([](Context& context) -> Result<int> {
    CAIRN_TRY(client::ApiClient * client, context.connect());
    CAIRN_TRY(api::NodeList list, client->list_nodes(context.call()));
    Output& output = context.output();
    if (output.json()) {
      std::vector<std::string> documents;
      for (const api::Node& node : list.nodes) documents.push_back(node_json(node));
      output.document(json_array(documents));
      return 0;
    }
    std::vector<std::vector<std::string>> rows;
    for (const api::Node& node : list.nodes) {
      std::string gpus;
      for (const api::GpuInfo& gpu : node.gpus) gpus += fmt::format("{}{} x {}", gpus.empty() ? "" : ", ", gpu.count, gpu.type);
      rows.push_back({node.name, node.state, std::to_string(node.runs), std::to_string(node.cpus),
                      human_bytes(node.memory_bytes), gpus.empty() ? "-" : gpus,
                      human_bytes(node.disk_free_bytes) + " of " + human_bytes(node.disk_total_bytes),
                      human_time(node.seen_at)});
    }
    output.table({"NODE", "STATE", "RUNS", "CPUS", "MEMORY", "GPUS", "FREE DISK", "SEEN"}, rows);
    return 0;
  });
}

}  // namespace cairn::cli
