#include "cli/commands.h"
#include "cli/json_text.h"
#include "base/quantity.h"

namespace cairn::cli {
namespace {

struct CreateOptions {
  std::string label, user, expires;
  std::vector<std::string> scopes;
};

std::string token_json(const api::Token& token) {
  std::vector<std::string> scopes;
  for (const std::string& scope : token.scopes) scopes.push_back(json_quote(scope));
  JsonText json;
  json.add("id", token.id.hex()).add("name", token.label).add("user", token.user).raw("scopes", json_array(scopes));
  json.add("created_at", to_rfc3339(token.created_at));
  token.expires_at ? json.add("expires_at", to_rfc3339(*token.expires_at)) : json.raw("expires_at", "null");
  return json.add("revoked", token.revoked).str();
}

Result<int> create(Context& context, const CreateOptions& options) {
  CAIRN_TRY(client::ApiClient * client, context.connect());
  api::CreateToken body;
  body.label = options.label;
  body.user = options.user;
  body.scopes = options.scopes;
  if (!options.expires.empty()) {
    CAIRN_TRY(Duration life, parse_duration(options.expires));
    body.expires_in_seconds = static_cast<uint64_t>(life.count() / 1'000'000);
  }
  CAIRN_TRY(api::CreatedToken created, client->create_token(body, context.call()));
  if (context.output().json()) {
    context.output().document(JsonText().add("id", created.token.id.hex()).add("secret", created.secret).str());
  } else {
    context.output().line(created.secret);
    context.output().note("this is shown once; end it with: cairn tokens revoke " + created.token.id.hex());
  }
  return 0;
}

Result<int> list(Context& context) {
  CAIRN_TRY(client::ApiClient * client, context.connect());
  CAIRN_TRY(api::TokenList tokens, client->list_tokens(context.call()));
  if (context.output().json()) {
    std::vector<std::string> documents;
    for (const api::Token& token : tokens.tokens) documents.push_back(token_json(token));
    context.output().document(json_array(documents));
    return 0;
  }
  std::vector<std::vector<std::string>> rows;
  for (const api::Token& token : tokens.tokens) {
    std::string scopes;
    for (const std::string& scope : token.scopes) scopes += (scopes.empty() ? "" : ",") + scope;
    rows.push_back({token.id.hex(), token.label, token.user, scopes, human_time(token.created_at),
                    token.revoked ? "revoked" : token.expires_at ? human_time(*token.expires_at) : "never"});
  }
  context.output().table({"TOKEN", "NAME", "USER", "SCOPES", "CREATED", "EXPIRES"}, rows);
  return 0;
}

}  // namespace

void add_tokens(Verb root) {
  Verb tokens = root.add("tokens", "API tokens: make, list and revoke them");
  auto options = std::make_shared<CreateOptions>();
  tokens.add("create", "Make a token; it is shown once")
      .text("NAME", options->label, "What it is for", true)
      .text("--user", options->user, "Whose it is (default: yours)")
      .list("--scope", options->scopes, "full, read or node; may be repeated (default: full)")
      .text("--expires", options->expires, "How long it lives, e.g. 30d (default: until revoked)")
      .run([options](Context& context) { return create(context, *options); });
  tokens.add("list", "List tokens").run(list);
  auto id = std::make_shared<std::string>();
  tokens.add("revoke", "End a token at once").text("TOKEN", *id, "Its id", true).run([id](Context& context) -> Result<int> {
    auto token = TokenId::from_hex(*id);
    if (!token) return Error(Code::kUsage, "'" + *id + "' is not a token's id", "list them with: cairn tokens list");
    CAIRN_TRY(client::ApiClient * client, context.connect());
    CAIRN_CHECK_OK(client->revoke_token(*token, context.call()));
    context.output().line("revoked");
    return 0;
  });
}

}  // namespace cairn::cli
