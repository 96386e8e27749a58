// Rows of API tokens. The secret itself is never stored, only its SHA-256.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "catalog/db.h"
#include "catalog/users.h"

namespace cairn::catalog {

struct TokenRow {
  TokenId id;
  UserId user;
  std::string label;
  std::string secret_hash;  // SHA-256 of the secret, hex
  std::string scopes;       // sorted names with a blank between them
  Time created;
  std::optional<Time> expires;
  std::optional<Time> revoked;
  std::optional<Time> last_used;
};

struct TokenWithUser {
  TokenRow token;
  UserRow user;
};

Status insert_token(Tx& tx, const TokenRow& token);
Result<std::optional<TokenWithUser>> find_token(Tx& tx, TokenId id);
// A user's tokens, newest first, at most 1000.
Result<std::vector<TokenRow>> list_tokens(Tx& tx, UserId user);
// False when there is no such token of that user, or it was revoked before.
Result<bool> revoke_token(Tx& tx, UserId user, TokenId id, Time now);
// Revokes those of a user with that label; how many.
Result<int64_t> revoke_tokens_labelled(Tx& tx, UserId user, const std::string& label, Time now);
// Moves last_used forward when it is more than `at_least` old.
Status touch_token(Tx& tx, TokenId id, Time now, Duration at_least);

}  // namespace cairn::catalog
