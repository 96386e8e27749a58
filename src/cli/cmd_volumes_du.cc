#include "cli/commands.h"
#include "cli/json_text.h"
#include "cli/terminal_text.h"

namespace cairn::cli {

void add_volumes_du(Verb volumes) {
  struct Options {
    std::string name, path;
  };
  auto options = std::make_shared<Options>();
  volumes.add("du", "Files and bytes of a folder, from the tree's counts")
      .text("NAME", options->name, "The volume, or NAME@SNAPSHOT", true)
      .text("PATH", options->path, "A file or folder (default: everything)")
      .run([options](Context& context) -> Result<int> {
        CAIRN_TRY(client::ApiClient * client, context.connect());
        CAIRN_TRY(VolumeAtSnapshot where, parse_volume_at(options->name));
        CAIRN_TRY(std::string path, parse_volume_path(options->path));
        api::PathQuery query;
        query.snapshot = where.snapshot.value_or(0);
        query.path = path;
        CAIRN_TRY(api::Usage usage, client->usage(where.volume, query, context.call()));
        Output& output = context.output();
        if (output.json()) {
          output.document(JsonText()
                              .add("path", shown_path(path))
                              .add("entries", usage.entries)
                              .add("files", usage.files)
                              .add("bytes", usage.bytes)
                              .add("snapshot", usage.snapshot)
                              .str());
        } else {
          output.line(human_bytes(usage.bytes) + " (" + human_count(usage.bytes) + " bytes) in " +
                      plural(usage.files, "file") + "  /" + shown_path(path) + "  snapshot " + std::to_string(usage.snapshot));
        }
        return 0;
      });
}

}  // namespace cairn::cli
