#include "cli/commands.h"
#include "cli/volume_text.h"
#include "base/quantity.h"

namespace cairn::cli {

void add_volumes_expand(Verb volumes) {
  struct Options {
    std::string name, size;
  };
  auto options = std::make_shared<Options>();
  volumes.add("expand", "Grow a volume; running runs keep the size they started with")
      .text("NAME", options->name, "The volume", true)
      .text("--size", options->size, "The new size, e.g. 1Ti", true)
      .run([options](Context& context) -> Result<int> {
        CAIRN_TRY(client::ApiClient * client, context.connect());
        CAIRN_TRY(uint64_t size_bytes, parse_size(options->size));
        CAIRN_TRY(api::Volume volume, client->expand_volume(options->name, {size_bytes}, context.call()));
        Output& output = context.output();
        if (output.json()) {
          output.document(volume_json(volume));
        } else {
          output.line("volume " + volume.name + " is " + size_text(volume.size_bytes) + " now");
        }
        return 0;
      });
}

}  // namespace cairn::cli
