#include <algorithm>

#include "cli/commands.h"
#include "cli/json_text.h"
#include "cli/volume_text.h"

namespace cairn::cli {

std::vector<std::string> lost_writers(const std::vector<api::Run>& runs, const std::string& volume) {
  std::vector<std::string> ids;
  for (const api::Run& run : runs) {
    if (run.state != api::RunState::kLost) continue;
    bool writes = std::any_of(run.mounts.begin(), run.mounts.end(), [&](const api::MountRequest& mount) {
      return mount.volume == volume && !mount.read_only;
    });
    if (writes || run.volume == volume) ids.push_back(run.id.hex());
  }
  return ids;
}

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
        CAIRN_TRY(api::RunList runs, client->list_runs({RunId(), 1000}, context.call()));
        for (const std::string& run : lost_writers(runs.runs, volume.name)) {
          output.note("run " + run + " is lost and keeps '" + volume.name +
                      "' from being deleted no longer; what it has not published is kept aside if its node comes back before");
        }
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
