#include "cli/commands.h"

#include <fmt/core.h>

#include "cli/json_text.h"
#include "cli/terminal_text.h"

namespace cairn::cli {
namespace {

std::string entry_json(const api::Entry& entry, const std::string& name) {
  JsonText json;
  json.add("name", shown_path(name))
      .add("path", shown_path(entry.path))
      .add("kind", entry.kind)
      .add("size_bytes", entry.size_bytes)
      .add("mode", fmt::format("{:04o}", entry.mode))
      .add("modified_at", to_rfc3339(Time{entry.mtime_ns / 1000}));
  if (entry.kind == "symlink") json.add("target", shown_path(entry.target));
  return json.str();
}

}  // namespace

void add_volumes_ls(Verb parent) {
  struct Options {
    std::string name, path;
    bool details = false;
  };
  auto options = std::make_shared<Options>();
  parent.add("ls", "List a folder of a volume")
      .text("NAME", options->name, "The volume, or NAME@SNAPSHOT", true)
      .text("PATH", options->path, "A folder (default: the top)")
      .flag("--long,-l", options->details, "Mode, size and time of each entry")
      .run([options](Context& context) -> Result<int> {
        CAIRN_TRY(client::ApiClient * client, context.connect());
        CAIRN_TRY(VolumeAtSnapshot where, parse_volume_at(options->name));
        api::EntriesQuery query;
        query.snapshot = where.snapshot.value_or(0);
        CAIRN_TRY(query.path, parse_volume_path(options->path));
        Output& output = context.output();
        std::vector<std::string> documents;
        std::vector<std::vector<std::string>> rows;
        for (;;) {
          CAIRN_TRY(api::EntryPage page, client->list_entries(where.volume, query, context.call()));
          for (const api::Entry& entry : page.entries) {
            size_t slash = entry.path.rfind('/');
            std::string name = slash == std::string::npos ? entry.path : entry.path.substr(slash + 1);
            if (output.json()) {
              documents.push_back(entry_json(entry, name));
              continue;
            }
            std::string shown = shown_path(name) + (entry.kind == "dir" ? "/" : "");
            if (entry.kind == "symlink") shown += " -> " + shown_path(entry.target);
            if (options->details) {
              rows.push_back({fmt::format("{:04o}", entry.mode), human_bytes(entry.size_bytes),
                              human_time(Time{entry.mtime_ns / 1000}), shown});
            } else {
              output.line(shown);
            }
          }
          if (!page.next) break;
          query.after = *page.next;
          query.snapshot = page.snapshot;
        }
        if (output.json()) output.document(json_array(documents));
        if (options->details && !output.json()) output.table({"MODE", "SIZE", "MODIFIED", "NAME"}, rows);
        return 0;
      });
}

}  // namespace cairn::cli
