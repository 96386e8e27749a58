#include "cli/commands.h"
#include "cli/json_text.h"
#include "cli/settings_file.h"
#include "os/terminal.h"

namespace cairn::cli {
namespace {

std::string whoami_json(const api::WhoAmI& who, const std::string& url) {
  return JsonText().add("url", url).add("user", who.user).add("role", who.role).add("token", who.token).str();
}

// Without a terminal the environment is the other way to hand it over.
Result<std::string> ask_for_token(const std::string& url) {
  auto typed = os::read_hidden_line("Token: ");
  if (typed || typed.error().code() != Code::kFileUnreadable) return typed;
  if (auto given = environment("CAIRN_TOKEN")) return *given;
  return Error(Code::kUsage, "login needs a token, and there is no terminal to ask for it",
               "give it in the environment as CAIRN_TOKEN, or type: cairn login --url " + (url.empty() ? "URL" : url) + " --token TOKEN");
}

}  // namespace

void add_login(Verb root) {
  root.add("login", "Check a server and a token, and keep them in the configuration")
      .footer("Example: cairn login --url http://127.0.0.1:8470 --token cairn_...\nWithout --token it is asked for; without a terminal CAIRN_TOKEN is taken.")
      .run([](Context& context) -> Result<int> {
        if (context.global().token.empty()) {
          CAIRN_TRY(config::ClientSettings known, context.settings());
          CAIRN_TRY(context.global().token, ask_for_token(known.url));
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
