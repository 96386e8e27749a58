#include "cli/commands.h"
#include "cli/json_text.h"

namespace cairn::cli {

void add_volumes_delete(Verb volumes) {
  struct Options {
    std::string name;
    bool yes = false, purge = false;
  };
  auto options = std::make_shared<Options>();
  volumes.add("delete", "Move a volume to the trash (7 days; 'undelete' brings it back)")
      .text("NAME", options->name, "The volume", true)
      .flag("--yes,-y", options->yes, "Do not ask")
      .flag("--purge", options->purge, "Remove the data at once: nothing brings it back")
      .run([options](Context& context) -> Result<int> {
        CAIRN_TRY(client::ApiClient * client, context.connect());
        CAIRN_TRY(api::DeletePreview preview, client->delete_preview(options->name, context.call()));
        Output& output = context.output();
        output.note("volume '" + options->name + "': " + plural(preview.files, "file") + ", " + human_bytes(preview.bytes) +
                    ", " + plural(preview.checkpoints, "checkpoint") +
                    (options->purge ? " will be removed at once, for good" : " will go to the trash for 7 days"));
        if (!options->yes) {
          CAIRN_CHECK_OK(confirm(context, "Type the volume's name to go on: ", options->name));
        }
        CAIRN_CHECK_OK(context.change({options->name}, [&] {
          return client->delete_volume(options->name, options->purge, context.call());
        }));
        if (output.json()) {
          output.document(JsonText()
                              .add("name", options->name)
                              .add("files", preview.files)
                              .add("bytes", preview.bytes)
                              .add("checkpoints", preview.checkpoints)
                              .add("purged", options->purge)
                              .str());
        } else {
          output.line(options->purge ? "removed " + options->name
                                     : "deleted " + options->name + "; bring it back with: cairn volumes undelete " +
                                           options->name);
        }
        return 0;
      });
}

}  // namespace cairn::cli
