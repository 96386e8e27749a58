#include "cli/commands.h"
#include "transfer/get.h"

namespace cairn::cli {

void add_volumes_cat(Verb volumes) {
  struct Options {
    std::string name, path;
  };
  auto options = std::make_shared<Options>();
  volumes.add("cat", "Write a file of a volume to stdout, every chunk verified")
      .text("NAME", options->name, "The volume, or NAME@SNAPSHOT", true)
      .text("PATH", options->path, "The file", true)
      .run([options](Context& context) -> Result<int> {
        CAIRN_TRY(client::ApiClient * client, context.connect());
        static_cast<void>(client);
        CAIRN_TRY(VolumeAtSnapshot where, parse_volume_at(options->name));
        transfer::CatOptions cat;
        CAIRN_TRY(cat.path, parse_volume_path(options->path));
        cat.snapshot = where.snapshot;
        auto remote = context.remote(where.volume);
        transfer::Progress progress;
        auto sink = [&](std::span<const uint8_t> bytes) {
          return context.output().write_bytes({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
        };
        CAIRN_TRY(uint64_t written, transfer::cat(*remote, cat, sink, progress, context.until_interrupted()));
        static_cast<void>(written);
        return 0;
      });
}

}  // namespace cairn::cli
