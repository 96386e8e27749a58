// Users and API tokens: making them, ending them, and saying who a request comes from.
//
// A token is shown once, when it is issued; the catalog keeps a hash. Issuing and revoking leave an event in the audit
// trail in the same transaction. Thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "catalog/catalog_clock.h"
#include "catalog/db.h"
#include "catalog/tokens.h"
#include "catalog/users.h"
#include "identity/principal.h"

namespace cairn::identity {

// "volume.create" by `who` at `now` from `origin` (a client's address, a node's name).
Status audit(catalog::Tx& tx, const Principal& who, Time now, std::string action, std::string object_kind,
             std::string object_name, std::string detail, std::string origin);

struct IssuedToken {
  TokenId id;
  std::string text;  // for the person; never log it
  std::optional<Time> expires;
};

struct TokenRequest {
  std::string label;  // what people know it by, 1–100 bytes
  Scopes scopes = Scope::kFull;
  std::optional<Duration> lifetime;  // nothing: until revoked
};

class Identity {
 public:
  Identity(catalog::Db& db, catalog::CatalogClock& clock, Random& random) : db_(db), clock_(clock), random_(random) {}

  // Who holds this token. not_signed_in for no token, token_invalid for one that is malformed, unknown, wrong or revoked,
  // token_expired, not_allowed for a disabled user's.
  Result<Principal> authenticate(std::string_view token, const Deadline& deadline = Deadline::never());

  // `by` must be an admin. request_invalid for a bad or taken name.
  Result<catalog::UserRow> create_user(const Principal& by, const std::string& name, Role role,
                                       const Deadline& deadline = Deadline::never());
  // Disabled users' tokens stop working at once. The last active admin cannot be disabled.
  Status set_user_enabled(const Principal& by, const std::string& name, bool enabled,
                          const Deadline& deadline = Deadline::never());

  // A token for `by` himself. It can do at most what the token he came with can; node tokens are for admins to issue.
  Result<IssuedToken> issue_token(const Principal& by, const TokenRequest& request,
                                  const Deadline& deadline = Deadline::never());
  // A first token for another active user; `by` must be an admin.
  Result<IssuedToken> issue_token_for(const Principal& by, const std::string& user, const TokenRequest& request,
                                      const Deadline& deadline = Deadline::never());
  Result<std::vector<catalog::TokenRow>> list_tokens(const Principal& by, const Deadline& deadline = Deadline::never());
  // One of his own tokens; request_invalid when there is no such unrevoked token.
  Status revoke_token(const Principal& by, TokenId id, const Deadline& deadline = Deadline::never());

  // For `cairn up`: makes sure that there is an admin named `name` and a token of his with `scopes` and `label`. Gives
  // `current` back if that is such a token and still good; else issues a new one and revokes the earlier ones of that
  // label, so that doing it twice leaves one. The caller keeps the text in a file only its owner can read.
  Result<std::string> bootstrap_token(const std::string& name, const std::string& label, Scopes scopes,
                                      std::string_view current, const Deadline& deadline = Deadline::never());

 private:
  Result<IssuedToken> issue_in(catalog::Tx& tx, UserId user, const TokenRequest& request, Time now);
  void note_use(const catalog::TokenRow& token, Time now, const Deadline& deadline);

  catalog::Db& db_;
  catalog::CatalogClock& clock_;
  Random& random_;
};

// 1–40 of a–z, 0–9, '.', '_' and '-', starting with a letter or digit.
Status check_user_name(std::string_view name);

}  // namespace cairn::identity
