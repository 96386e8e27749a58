#include "cli/commands.h"
#include "cli/json_text.h"
#include "cli/volume_text.h"

namespace cairn::cli {
namespace {

// Every page, the newest first; `all`: interim and side ones too.
Result<std::vector<api::Snapshot>> all_snapshots(Context& context, client::ApiClient& client, const std::string& volume,
                                                 bool all) {
  std::vector<api::Snapshot> snapshots;
  api::SnapshotsQuery query;
  query.limit = 1000;
  query.all = all;
  for (;;) {
    CAIRN_TRY(api::SnapshotList page, client.list_snapshots(volume, query, context.call()));
    snapshots.insert(snapshots.end(), page.snapshots.begin(), page.snapshots.end());
    if (page.snapshots.size() < query.limit) return snapshots;
    query.before = page.snapshots.back().number;
  }
}

}  // namespace

void add_volumes_snapshots(Verb volumes) {
  struct Options {
    std::string name;
    bool all = false;
  };
  auto options = std::make_shared<Options>();
  volumes.add("snapshots", "List the snapshots that are kept, the newest first; read one with NAME@NUMBER")
      .text("NAME", options->name, "The volume", true)
      .flag("--all", options->all, "Also interim ones and changes that were kept aside")
      .run([options](Context& context) -> Result<int> {
        CAIRN_TRY(client::ApiClient * client, context.connect());
        CAIRN_TRY(auto snapshots, all_snapshots(context, *client, options->name, options->all));
        Output& output = context.output();
        if (output.json()) {
          std::vector<std::string> documents;
          for (const api::Snapshot& snapshot : snapshots) documents.push_back(snapshot_json(snapshot));
          output.document(json_array(documents));
          return 0;
        }
        std::vector<std::vector<std::string>> rows;
        for (const api::Snapshot& snapshot : snapshots) {
          std::string kind = snapshot.side.empty() ? snapshot.kind : "aside: " + snapshot.side;
          rows.push_back({std::to_string(snapshot.number), kind, human_count(snapshot.files), human_bytes(snapshot.bytes),
                          human_time(snapshot.created_at), snapshot.author,
                          snapshot.message.empty() ? "-" : snapshot.message});
        }
        output.table({"SNAPSHOT", "KIND", "FILES", "SIZE", "CREATED", "AUTHOR", "MESSAGE"}, rows);
        return 0;
      });
}

}  // namespace cairn::cli
