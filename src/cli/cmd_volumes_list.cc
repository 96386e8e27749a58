#include "cli/commands.h"
#include "cli/json_text.h"
#include "cli/volume_text.h"

namespace cairn::cli {

void add_volumes_list(Verb volumes) {
  volumes.add("list", "List your volumes").run([](Context& context) -> Result<int> {
    CAIRN_TRY(client::ApiClient * client, context.connect());
    CAIRN_TRY(api::VolumeList list, client->list_volumes(context.call()));
    Output& output = context.output();
    if (output.json()) {
      std::vector<std::string> documents;
      for (const api::Volume& volume : list.volumes) documents.push_back(volume_json(volume));
      output.document(json_array(documents));
      return 0;
    }
    std::vector<std::vector<std::string>> rows;
    for (const api::Volume& volume : list.volumes) {
      rows.push_back({volume.name, size_text(volume.size_bytes), human_bytes(volume.used_bytes), volume.status,
                      volume.writer.empty() ? "-" : volume.writer, human_time(volume.created_at), volume.created_by});
    }
    output.table({"NAME", "SIZE", "USED", "STATUS", "WRITER", "CREATED", "CREATED BY"}, rows);
    if (rows.empty()) output.note("no volumes yet; make one with: cairn volumes create NAME --size 100Gi");
    return 0;
  });
}

}  // namespace cairn::cli
