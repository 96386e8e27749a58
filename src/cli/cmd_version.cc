#include "cli/commands.h"
#include "cli/json_text.h"

namespace cairn::cli {

void add_version(Verb root) {
  root.add("version", "Versions of this program and of the server").run([](Context& context) -> Result<int> {
    JsonText json;
    json.add("client", CAIRN_VERSION);
    std::string server = "not configured";
    auto client = context.connect();
    if (!client && client.error().code() != Code::kNotSignedIn) server = client.error().message();
    if (client) {
      auto answer = (*client)->version(Deadline::after(seconds(5), system_clock(), context.cancel()));
      server = answer ? answer->version : "unreachable: " + answer.error().message();
      if (answer) json.add("server", answer->version).add("api", answer->api);
    }
    if (context.output().json()) {
      context.output().document(json.str());
    } else {
      context.output().line("cairn " CAIRN_VERSION "\nserver " + server);
    }
    return 0;
  });
}

}  // namespace cairn::cli
