#include "api/json_fields.h"

namespace cairn::api {

template <class V>
void fields(V& v, ServerVersion& b) {
  v.field("version", b.version);
  v.field("api", b.api);
  v.option("server_time", b.server_time);
}

template <class V>
void fields(V& v, WhoAmI& b) {
  v.field("user", b.user);
  v.option("role", b.role);
  v.option("token", b.token);
  v.option("scopes", b.scopes);
  v.option("expires_at", b.expires_at);
}

template <class V>
void fields(V& v, CreateUser& b) {
  v.field("name", b.name);
  v.option("role", b.role);
}

template <class V>
void fields(V& v, User& b) {
  v.field("id", b.id);
  v.field("name", b.name);
  v.option("role", b.role);
  v.option("state", b.state);
  v.option("created_at", b.created_at);
}

template <class V>
void fields(V& v, UserList& b) { v.field("users", b.users); }

template <class V>
void fields(V& v, CreateToken& b) {
  v.field("label", b.label);
  v.option("user", b.user);
  v.option("scopes", b.scopes, 16);
  v.option("expires_in_seconds", b.expires_in_seconds);
}

template <class V>
void fields(V& v, Token& b) {
  v.field("id", b.id);
  v.field("label", b.label);
  v.option("user", b.user);
  v.option("scopes", b.scopes, 16);
  v.option("created_at", b.created_at);
  v.option("expires_at", b.expires_at);
  v.option("revoked", b.revoked);
}

template <class V>
void fields(V& v, CreatedToken& b) {
  v.field("token", b.token);
  v.field("secret", b.secret);
}

template <class V>
void fields(V& v, TokenList& b) { v.field("tokens", b.tokens); }

CAIRN_API_TYPE(ServerVersion)
CAIRN_API_TYPE(WhoAmI)
CAIRN_API_TYPE(CreateUser)
CAIRN_API_TYPE(User)
CAIRN_API_TYPE(UserList)
CAIRN_API_TYPE(CreateToken)
CAIRN_API_TYPE(Token)
CAIRN_API_TYPE(CreatedToken)
CAIRN_API_TYPE(TokenList)

}  // namespace cairn::api
