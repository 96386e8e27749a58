#include "cli/commands.h"
#include "cli/volume_text.h"

namespace cairn::cli {

void add_volumes_info(Verb volumes) {
  auto name = std::make_shared<std::string>();
  volumes.add("info", "Show one volume, who writes to it, and changes that were kept aside")
      .text("NAME", *name, "The volume", true)
      .run([name](Context& context) -> Result<int> {
        CAIRN_TRY(client::ApiClient * client, context.connect());
        CAIRN_TRY(api::Volume volume, client->get_volume(*name, context.call()));
        Output& output = context.output();
        if (output.json()) {
          output.document(volume_json(volume, true));
          return 0;
        }
        output.line(volume_text(volume));
        for (const api::Snapshot& snapshot : volume.side_snapshots) {
          output.line("Kept aside  " + snapshot.side + ": snapshot " + std::to_string(snapshot.number) + ", " +
                      plural(snapshot.files, "file") + ", " + human_time(snapshot.created_at));
        }
        return 0;
      });
}

}  // namespace cairn::cli
