#include "cli/commands.h"
#include "cli/json_text.h"
#include "cli/terminal_text.h"

namespace cairn::cli {
namespace {

// "step_1200" folders of runs that lie at or below `path`, as the user will lose them.
Result<std::vector<std::string>> checkpoints_below(Context& context, client::ApiClient& client, const std::string& volume,
                                                   const std::string& path) {
  std::vector<std::string> found;
  auto add_steps = [&](const std::string& run) -> Status {
    api::EntriesQuery query;
    query.path = run + "/checkpoints";
    auto page = client.list_entries(volume, query, context.call());
    if (!page && page.error().code() == Code::kPathNotFound) return ok();
    if (!page) return page.error();
    for (const api::Entry& entry : page->entries) {
      if (entry.kind == "dir" && entry.path.find("/step_") != std::string::npos) found.push_back(entry.path);
    }
    return ok();
  };
  if (path == "runs" || path.empty()) {
    api::EntriesQuery query;
    query.path = "runs";
    auto runs = client.list_entries(volume, query, context.call());
    if (!runs && runs.error().code() == Code::kPathNotFound) return found;
    if (!runs) return runs.error();
    for (const api::Entry& entry : runs->entries) CAIRN_CHECK_OK(add_steps(entry.path));
  } else if (path.starts_with("runs/")) {
    size_t end = path.find('/', 5);
    std::string run = path.substr(0, end);
    CAIRN_CHECK_OK(add_steps(run));
    std::erase_if(found, [&](const std::string& step) {
      bool below = step == path || step.starts_with(path + "/");
      bool inside = path.starts_with(step + "/");
      return !below && !inside;
    });
  }
  return found;
}

}  // namespace

void add_volumes_rm(Verb volumes) {
  struct Options {
    std::string name;
    std::vector<std::string> paths;
    bool yes = false;
  };
  auto options = std::make_shared<Options>();
  volumes.add("rm", "Remove files or folders from a volume (older snapshots keep them for the volume's history)")
      .text("NAME", options->name, "The volume", true)
      .list("PATH", options->paths, "Files or folders", true)
      .flag("--yes,-y", options->yes, "Do not ask when checkpoints go")
      .run([options](Context& context) -> Result<int> {
        CAIRN_TRY(client::ApiClient * client, context.connect());
        Output& output = context.output();
        api::RemovePaths body;
        std::vector<std::string> checkpoints;
        for (const std::string& typed : options->paths) {
          CAIRN_TRY(std::string path, parse_volume_path(typed));
          CAIRN_TRY(auto below, checkpoints_below(context, *client, options->name, path));
          checkpoints.insert(checkpoints.end(), below.begin(), below.end());
          body.paths.push_back(path);
        }
        if (!checkpoints.empty()) {
          output.note("these checkpoints will go:");
          for (const std::string& checkpoint : checkpoints) output.note("  " + shown_path(checkpoint));
          if (!options->yes) {
            CAIRN_CHECK_OK(confirm(context, "Type the volume's name to go on: ", options->name));
          }
        }
        CAIRN_TRY(api::Published published, context.change({options->name}, [&] {
          return client->remove_paths(options->name, body, context.call());
        }));
        if (output.json()) {
          output.document(JsonText()
                              .add("snapshot", published.snapshot)
                              .add("files", published.files)
                              .add("bytes", published.bytes)
                              .str());
        } else {
          output.line("removed; volume " + options->name + " holds " + plural(published.files, "file") + ", " +
                      human_bytes(published.bytes) + " now; snapshot " + std::to_string(published.snapshot));
        }
        return 0;
      });
}

}  // namespace cairn::cli
