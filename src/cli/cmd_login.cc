#include "cli/commands.h"
#include "cli/json_text.h"
#include "cli/settings_file.h"
#include "os/terminal.h"

namespace cairn::cli {
namespace {

std::string whoami_json(const api::WhoAmI& who, const std::string& url) {
  return JsonText().add("url", url).add("user", who.user).add("role", who.role).add("token", who.token).str();
}

}  // namespace

void add_login(Verb root) {
  root.add("login", "Check a server and a token, and keep them in the configuration")
      .footer("Example: cairn login --url http://127.0.0.1:8470 --token cairn_...\nWithout --token it is asked for.")
      .run([](Context& context) -> Result<int> {
        if (context.global().token.empty()) {
          CAIRN_TRY(context.global().token, os::read_hidden_line("Token: "));
        }
        CAIRN_TRY(config::ClientSettings settings, context.settings());
        CAIRN_TRY(client::ApiClient * client, context.connect());
        CAIRN_TRY(api::WhoAmI who, client->whoami(context.call()));
        settings.url = client->options().url;
        CAIRN_CHECK_OK(save_settings(context.config_path(), settings));
        Output& output = context.output();
        if (output.json()) {
          output.document(whoami_json(who, settings.url));
        } else {
          output.line("signed in to " + settings.url + " as " + who.user + " (" + who.role + "); kept in " + context.config_path());
        }
        return 0;
      });
  root.add("whoami", "Who the token belongs to").run([](Context& context) -> Result<int> {
    CAIRN_TRY(client::ApiClient * client, context.connect());
    CAIRN_TRY(api::WhoAmI who, client->whoami(context.call()));
    if (context.output().json()) {
      context.output().document(whoami_json(who, client->options().url));
    } else {
      context.output().line(who.user + " (" + who.role + ") at " + client->options().url);
    }
    return 0;
  });
}

}  // namespace cairn::cli
