#include "cli/commands.h"
#include "cli/volume_text.h"

namespace cairn::cli {

void add_volumes_undelete(Verb volumes) {
  struct Options {
    std::string name, as;
  };
  auto options = std::make_shared<Options>();
  volumes.add("undelete", "Bring a volume back from the trash")
      .text("NAME", options->name, "The name it had", true)
      .text("--as", options->as, "A new name for it, when the old one is taken")
      .run([options](Context& context) -> Result<int> {
        CAIRN_TRY(client::ApiClient * client, context.connect());
        CAIRN_TRY(api::Volume volume, client->undelete_volume(options->name, {options->as}, context.call()));
        Output& output = context.output();
        if (output.json()) {
          output.document(volume_json(volume));
        } else {
          output.line("volume " + volume.name + " is back: " + plural(volume.files, "file") + ", " +
                      human_bytes(volume.used_bytes));
        }
        return 0;
      });
}

}  // namespace cairn::cli
