#include "cli/commands.h"

namespace cairn::cli {

void add_server(Verb root) {
  struct Options {
    std::string file;
    bool restored = false;
  };
  auto options = std::make_shared<Options>();
  root.add("server", "Run a server by itself ('cairn up' runs server and agent on one box)")
      .text("--config", options->file, "The server's TOML file", true)
      .flag("--restored", options->restored, "The catalog was restored from a backup: once, at the first start with it")
      .run([options](Context& context) {
        return context.wiring().run_server(options->file, context.cancel(), options->restored);
      });
}

}  // namespace cairn::cli
