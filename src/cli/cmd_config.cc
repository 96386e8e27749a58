#include "cli/commands.h"
#include "cli/json_text.h"
#include "cli/settings_file.h"

namespace cairn::cli {

void add_config(Verb root) {
  Verb config = root.add("config", "The command line's configuration");
  config.add("view", "Show what is in force, flags and environment included (the token is not shown)").run([](Context& context) -> Result<int> {
    CAIRN_TRY(config::ClientSettings settings, context.settings());
    std::string token = settings.token.empty() ? "none" : settings.token.substr(0, 14) + "...";
    if (context.output().json()) {
      context.output().document(JsonText().add("file", context.config_path()).add("url", settings.url).add("token", token).str());
    } else {
      context.output().line("File   " + context.config_path() + "\nURL    " + (settings.url.empty() ? "none" : settings.url) +
                            "\nToken  " + token);
    }
    return 0;
  });
  auto url = std::make_shared<std::string>();
  config.add("set-url", "Set the server").text("URL", *url, "e.g. https://cairn.example.org", true).run([url](Context& context) -> Result<int> {
    CAIRN_TRY(std::string checked, config::check_server_url(*url));
    CAIRN_TRY(config::ClientSettings settings, context.settings());
    settings.url = checked;
    CAIRN_CHECK_OK(save_settings(context.config_path(), settings));
    context.output().line("server is " + checked + " now; sign in with: cairn login");
    return 0;
  });
}

}  // namespace cairn::cli
