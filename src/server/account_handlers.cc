#include <limits>

#include <fmt/format.h>

#include "identity/token_text.h"
#include "server/api_handlers.h"
#include "server/reply.h"

namespace cairn::server {
namespace {

api::User to_api(const catalog::UserRow& row) {
  api::User user;
  user.id = row.id;
  user.name = row.name;
  user.role = row.role;
  user.state = row.state;
  user.created_at = row.created;
  return user;
}

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> list;
  while (!text.empty()) {
    std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (!word.empty()) list.emplace_back(word);
  }
  return list;
}

api::Token to_api(const catalog::TokenRow& row, const std::string& user) {
  api::Token token;
  token.id = row.id;
  token.label = row.label;
  token.user = user;
  token.scopes = words(row.scopes);
  token.created_at = row.created;
  token.expires_at = row.expires;
  token.revoked = row.revoked.has_value();
  return token;
}

Result<identity::Scopes> scopes_of(const std::vector<std::string>& names) {
  if (names.empty()) return identity::Scopes(identity::Scope::kFull);
  identity::Scopes scopes;
  for (const std::string& name : names) {
    auto scope = identity::Scopes::from_text(name);
    if (!scope) return Error(Code::kUsage, fmt::format("'{}' is no scope of a token", name), "give full, read or node");
    scopes = scopes | *scope;
  }
  return scopes;
}

}  // namespace

Result<http::Response> ApiHandlers::version(Call& call) {
  api::ServerVersion version;
  version.version = CAIRN_VERSION;
  CAIRN_TRY(version.server_time, now(call.http.deadline));
  return json_response(version);
}

Result<http::Response> ApiHandlers::whoami(Call& call) {
  api::WhoAmI who;
  who.user = call.who.name;
  who.role = identity::role_name(call.who.role);
  who.scopes = words(call.who.scopes.to_text());
  CAIRN_TRY(auto tokens, s_.identity.list_tokens(call.who, call.http.deadline));
  for (const catalog::TokenRow& token : tokens) {
    if (token.id != call.who.token) continue;
    who.token = token.label;
    who.expires_at = token.expires;
  }
  return json_response(who);
}

Result<http::Response> ApiHandlers::create_user(Call& call) {
  CAIRN_TRY(api::CreateUser body, call.body<api::CreateUser>());
  auto role = identity::role_from_name(body.role);
  if (!role) return Error(Code::kRequestInvalid, "a role is admin or member");
  CAIRN_TRY(catalog::UserRow user, s_.identity.create_user(call.who, body.name, *role, call.http.deadline));
  return json_response(to_api(user));
}

Result<http::Response> ApiHandlers::list_users(Call& call) {
  CAIRN_CHECK_OK(call.who.require_admin());
  CAIRN_CHECK_OK(call.no_more_parameters());
  api::UserList list;
  std::string after;
  for (;;) {
    CAIRN_TRY(auto page, s_.db.read([&](catalog::Tx& tx) { return catalog::list_users(tx, after, 1000); }, call.http.deadline));
    for (const catalog::UserRow& row : page) list.users.push_back(to_api(row));
    if (page.size() < 1000) break;
    after = page.back().name;
  }
  return json_response(list);
}

Result<http::Response> ApiHandlers::create_token(Call& call) {
  CAIRN_TRY(api::CreateToken body, call.body<api::CreateToken>());
  if (!body.user.empty() && body.user != call.who.name) {
    CAIRN_CHECK_OK(call.who.require_admin());
  }
  identity::TokenRequest request;
  request.label = body.label;
  CAIRN_TRY(request.scopes, scopes_of(body.scopes));
  if (body.expires_in_seconds) {
    constexpr uint64_t kSecondsMax = uint64_t{100} * 366 * 86'400;
    request.lifetime = Duration(seconds(static_cast<int64_t>(std::min(*body.expires_in_seconds, kSecondsMax))));
  }
  std::string user = body.user.empty() ? call.who.name : body.user;
  CAIRN_TRY(identity::IssuedToken issued,
            user == call.who.name ? s_.identity.issue_token(call.who, request, call.http.deadline)
                                  : s_.identity.issue_token_for(call.who, user, request, call.http.deadline));
  api::CreatedToken created;
  created.token.id = issued.id;
  created.token.label = body.label;
  created.token.user = user;
  created.token.scopes = words(request.scopes.to_text());
  CAIRN_TRY(created.token.created_at, now(call.http.deadline));
  created.token.expires_at = issued.expires;
  created.secret = issued.text;
  return json_response(created);
}

Result<http::Response> ApiHandlers::list_tokens(Call& call) {
  CAIRN_CHECK_OK(call.no_more_parameters());
  CAIRN_TRY(auto rows, s_.identity.list_tokens(call.who, call.http.deadline));
  api::TokenList list;
  for (const catalog::TokenRow& row : rows) list.tokens.push_back(to_api(row, call.who.name));
  return json_response(list);
}

Result<http::Response> ApiHandlers::revoke_token(Call& call) {
  CAIRN_TRY(TokenId token, call.id<TokenId>());
  CAIRN_CHECK_OK(s_.identity.revoke_token(call.who, token, call.http.deadline));
  return http::Response::json(200, "{}");
}

}  // namespace cairn::server
