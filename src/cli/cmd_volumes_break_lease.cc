#include "cli/commands.h"
#include "cli/json_text.h"

namespace cairn::cli {

void add_volumes_break_lease(Verb volumes) {
  struct Options {
    std::string name;
    bool yes = false;
  };
  auto options = std::make_shared<Options>();
  volumes.add("break-lease", "End the writer lease of an upload or run that will not end it itself")
      .text("NAME", options->name, "The volume", true)
      .flag("--yes,-y", options->yes, "Do not ask")
      .run([options](Context& context) -> Result<int> {
        CAIRN_TRY(client::ApiClient * client, context.connect());
        CAIRN_TRY(api::Volume volume, client->get_volume(options->name, context.call()));
        Output& output = context.output();
        if (!volume.writer.empty()) {
          output.note("volume '" + volume.name + "' is written by " + volume.writer +
                      "; an upload ends with an error, what a run brings later is kept aside");
        }
        output.note("runs of lost nodes keep '" + volume.name +
                    "' from being deleted no longer: what they have not published is kept aside if they come back before");
        if (!options->yes) CAIRN_CHECK_OK(confirm(context, "Type the volume's name to go on: ", volume.name));
        CAIRN_CHECK_OK(client->break_lease(volume.name, context.call()));
        if (output.json()) {
          output.document(JsonText().add("name", volume.name).add("ended", volume.writer).str());
        } else {
          output.line(volume.writer.empty() ? "nobody writes to " + volume.name : "ended: " + volume.writer);
        }
        return 0;
      });
}

}  // namespace cairn::cli
