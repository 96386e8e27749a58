#include "cli/commands.h"

namespace cairn::cli {

void add_server(Verb root) {
  auto file = std::make_shared<std::string>();
  root.add("server", "Run a server by itself ('cairn up' runs server and agent on one box)")
      .text("--config", *file, "The server's TOML file", true)
      .run([file](Context& context) { return context.wiring().run_server(*file, context.cancel()); });
}

}  // namespace cairn::cli
