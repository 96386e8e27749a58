#include "cli/commands.h"

namespace cairn::cli {

void add_agent(Verb root) {
  struct Options {
    std::string file, journal;
  };
  auto options = std::make_shared<Options>();
  Verb agent = root.add("agent", "Run a node's agent by itself");
  agent.text("--config", options->file, "The agent's TOML file")
      .run([options](Context& context) -> Result<int> {
        if (options->file.empty()) return Error(Code::kUsage, "--config is needed", "cairn agent --config FILE");
        return context.wiring().run_agent(options->file, context.cancel());
      });
  agent.add("exec", "The executor of one attempt of a run; started by the agent")
      .hidden()
      .text("--journal", options->journal, "The attempt's folder", true)
      .run([options](Context& context) -> Result<int> {
        if (options->file.empty()) return Error(Code::kUsage, "--config is needed");
        return context.wiring().run_executor({options->file, options->journal}, context.cancel());
      });
}

}  // namespace cairn::cli
