#include "cli/commands.h"
#include "cli/volume_text.h"
#include "base/quantity.h"

namespace cairn::cli {

void add_volumes_create(Verb volumes) {
  struct Options {
    std::string name, size, history;
  };
  auto options = std::make_shared<Options>();
  volumes.add("create", "Create a volume; with the same name and size again it answers with the one that is there")
      .text("NAME", options->name, "1 to 40 of a-z, 0-9 and '-'", true)
      .text("--size", options->size, "Size, e.g. 500Gi (default: the server's)")
      .text("--history", options->history, "How long old snapshots are kept: 7d, 20 (snapshots) or off")
      .run([options](Context& context) -> Result<int> {
        CAIRN_TRY(client::ApiClient * client, context.connect());
        api::CreateVolume body;
        body.name = options->name;
        if (!options->size.empty()) {
          CAIRN_TRY(body.size_bytes, parse_size(options->size));
        }
        if (!options->history.empty()) body.history = options->history;
        CAIRN_TRY(api::Volume volume, client->create_volume(body, context.call()));
        Output& output = context.output();
        if (output.json()) {
          output.document(volume_json(volume));
        } else {
          output.line("volume " + volume.name + ", " + size_text(volume.size_bytes) + "; fill it with: cairn volumes put " +
                      volume.name + " ./my-data datasets/");
        }
        return 0;
      });
}

}  // namespace cairn::cli
