#include "identity/identity.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/log.h"
#include "catalog/events.h"
#include "identity/token_text.h"

namespace cairn::identity {

using catalog::Tx;
using catalog::UserRow;

namespace {

constexpr size_t kNameBytesMax = 40;
constexpr size_t kLabelBytesMax = 100;
constexpr Duration kLifetimeMax = hours(24 * 365 * 10);
constexpr Duration kUseNotedEvery = hours(1);

Error invalid_token() {
  return Error(Code::kTokenInvalid, "the token is not valid").with_hint("Sign in again with `cairn login`.");
}

Status check_token_request(const TokenRequest& request) {
  if (request.label.empty() || request.label.size() > kLabelBytesMax) {
    return Error(Code::kUsage, fmt::format("a token's label has 1 to {} bytes, not {}", kLabelBytesMax, request.label.size()));
  }
  if (request.scopes.empty()) return Error(Code::kUsage, "a token needs a scope", "give full, read or node");
  if (request.lifetime && (*request.lifetime <= Duration(0) || *request.lifetime > kLifetimeMax)) {
    return Error(Code::kUsage, "a token lives for more than 0 s and at most ten years", "write the time it lives like 12h or 30d");
  }
  return ok();
}

Result<Principal> principal_of(const catalog::TokenWithUser& found) {
  std::optional<Role> role = role_from_name(found.user.role);
  std::optional<Scopes> scopes = Scopes::from_text(found.token.scopes);
  if (!role || !scopes) {
    return Error(Code::kDataCorrupt, fmt::format("the catalog holds an unknown role or scope for token {}", found.token.id.hex()));
  }
  return Principal{found.user.id, found.user.name, *role, *scopes, found.token.id};
}

Error nothing_to_revoke(const Principal& by, TokenId id, const std::optional<catalog::TokenWithUser>& found) {
  constexpr std::string_view kHint = "list yours with: cairn tokens list";
  bool own = found && found->token.user == by.user;
  if (!own || !found->token.revoked) {
    return Error(Code::kObjectNotFound, fmt::format("you have no token {}", id.hex()), std::string(kHint));
  }
  return Error(Code::kObjectNotFound,
               fmt::format("token {} ('{}') was revoked already, at {}", id.hex(), found->token.label, to_rfc3339(*found->token.revoked)),
               std::string(kHint));
}

// Only for a secret that matched.
Status check_usable(const catalog::TokenWithUser& found, Time now) {
  if (found.token.revoked) return invalid_token();
  if (found.token.expires && *found.token.expires <= now) {
    return Error(Code::kTokenExpired, fmt::format("the token '{}' expired at {}", found.token.label, to_rfc3339(*found.token.expires)))
        .with_hint("Make a new one and sign in with `cairn login`.");
  }
  if (found.user.state != "active") {
    return Error(Code::kNotAllowed, fmt::format("the user '{}' is disabled", found.user.name)).with_hint("Ask an admin.");
  }
  return ok();
}

}  // namespace

Status check_user_name(std::string_view name) {
  auto is_alnum = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  bool good = !name.empty() && name.size() <= kNameBytesMax && is_alnum(name[0]);
  for (char c : name) good = good && (is_alnum(c) || c == '.' || c == '_' || c == '-');
  if (good) return ok();
  return Error(Code::kUsage, "a user name has 1 to 40 of a-z, 0-9, '.', '_' and '-' and starts with a letter or digit");
}

Status audit(Tx& tx, const Principal& who, Time now, std::string action, std::string object_kind, std::string object_name,
             std::string detail, std::string origin) {
  catalog::Event event;
  event.at = now;
  if (!who.user.is_none()) event.actor = who.user;
  event.actor_name = who.name;
  event.action = std::move(action);
  event.object_kind = std::move(object_kind);
  event.object_name = std::move(object_name);
  event.detail = std::move(detail);
  event.origin = std::move(origin);
  return catalog::add_event(tx, event);
}

Result<Principal> Identity::authenticate(std::string_view token, const Deadline& deadline) {
  if (token.empty()) return Error(Code::kNotSignedIn, "not signed in").with_hint("Sign in with `cairn login`.");
  std::optional<TokenText> text = TokenText::parse(token);
  if (!text) return invalid_token();
  struct Found {
    std::optional<catalog::TokenWithUser> row;
    Time now;
  };
  CAIRN_TRY(Found found, db_.read(
                             [&](Tx& tx) -> Result<Found> {
                               CAIRN_TRY(std::optional<catalog::TokenWithUser> row, catalog::find_token(tx, text->id));
                               CAIRN_TRY(Time now, clock_.now(tx));
                               return Found{std::move(row), now};
                             },
                             deadline));
  // An unknown id costs the same comparison.
  static const std::string kNoHash(64, '0');
  if (!text->matches(found.row ? found.row->token.secret_hash : kNoHash) || !found.row) return invalid_token();
  CAIRN_CHECK_OK(check_usable(*found.row, found.now));
  CAIRN_TRY(Principal principal, principal_of(*found.row));
  note_use(found.row->token, found.now, deadline);
  return principal;
}

void Identity::note_use(const catalog::TokenRow& token, Time now, const Deadline& deadline) {
  if (token.last_used && now - *token.last_used < kUseNotedEvery) return;
  Status noted = db_.transact([&](Tx& tx) { return catalog::touch_token(tx, token.id, now, kUseNotedEvery); }, deadline);
  if (!noted) log_warning("the last use of a token was not noted: {}", noted.error().to_string());
}

Result<UserRow> Identity::create_user(const Principal& by, const std::string& name, Role role, const Deadline& deadline) {
  CAIRN_CHECK_OK(by.require_admin());
  CAIRN_CHECK_OK(check_user_name(name));
  UserId id = UserId::random(random_);
  return db_.transact(
      [&](Tx& tx) -> Result<UserRow> {
        CAIRN_TRY(Time now, clock_.now(tx));
        UserRow user{id, name, std::string(role_name(role)), "active", now};
        CAIRN_TRY(bool added, catalog::insert_user(tx, user));
        if (!added) return Error(Code::kRequestInvalid, fmt::format("there is already a user '{}'", name));
        CAIRN_CHECK_OK(audit(tx, by, now, "user.create", "user", name, user.role, ""));
        return user;
      },
      deadline);
}

Status Identity::set_user_enabled(const Principal& by, const std::string& name, bool enabled, const Deadline& deadline) {
  CAIRN_CHECK_OK(by.require_admin());
  return db_.transact(
      [&](Tx& tx) -> Status {
        CAIRN_TRY(Time now, clock_.now(tx));
        CAIRN_TRY(std::optional<UserRow> user, catalog::find_user_by_name(tx, name));
        if (!user) return Error(Code::kRequestInvalid, fmt::format("there is no user '{}'", name));
        CAIRN_TRY(bool changed, catalog::set_user_state(tx, user->id, enabled ? "active" : "disabled"));
        if (!changed) return Error(Code::kNotAllowed, fmt::format("'{}' is the last admin and cannot be disabled", name));
        return audit(tx, by, now, enabled ? "user.enable" : "user.disable", "user", name, "", "");
      },
      deadline);
}

Result<IssuedToken> Identity::issue_in(Tx& tx, UserId user, const TokenRequest& request, Time now) {
  TokenText text = TokenText::random(random_);
  catalog::TokenRow row;
  row.id = text.id;
  row.user = user;
  row.label = request.label;
  row.secret_hash = text.secret_hash();
  row.scopes = request.scopes.to_text();
  row.created = now;
  if (request.lifetime) row.expires = now + *request.lifetime;
  CAIRN_CHECK_OK(catalog::insert_token(tx, row));
  return IssuedToken{text.id, text.text(), row.expires};
}

Result<IssuedToken> Identity::issue_token(const Principal& by, const TokenRequest& request, const Deadline& deadline) {
  CAIRN_CHECK_OK(check_token_request(request));
  if (request.scopes.has(Scope::kFull)) CAIRN_CHECK_OK(by.require(Scope::kFull));
  if (request.scopes.has(Scope::kRead)) CAIRN_CHECK_OK(by.require(Scope::kRead));
  if (request.scopes.has(Scope::kNode)) CAIRN_CHECK_OK(by.require_admin());
  return db_.transact(
      [&](Tx& tx) -> Result<IssuedToken> {
        CAIRN_TRY(Time now, clock_.now(tx));
        CAIRN_TRY(IssuedToken issued, issue_in(tx, by.user, request, now));
        CAIRN_CHECK_OK(audit(tx, by, now, "token.issue", "token", issued.id.hex(),
                             fmt::format("{} ({})", request.label, request.scopes.to_text()), ""));
        return issued;
      },
      deadline);
}

Result<IssuedToken> Identity::issue_token_for(const Principal& by, const std::string& user, const TokenRequest& request,
                                              const Deadline& deadline) {
  CAIRN_CHECK_OK(by.require_admin());
  CAIRN_CHECK_OK(check_token_request(request));
  return db_.transact(
      [&](Tx& tx) -> Result<IssuedToken> {
        CAIRN_TRY(Time now, clock_.now(tx));
        CAIRN_TRY(std::optional<UserRow> row, catalog::find_user_by_name(tx, user));
        if (!row || row->state != "active") return Error(Code::kObjectNotFound, fmt::format("there is no active user '{}'", user), "leave --user out for a token of your own");
        if (request.scopes.has(Scope::kNode) && row->role != role_name(Role::kAdmin)) {
          return Error(Code::kNotAllowed, fmt::format("node tokens belong to admins; '{}' is a {}", user, row->role));
        }
        CAIRN_TRY(IssuedToken issued, issue_in(tx, row->id, request, now));
        CAIRN_CHECK_OK(audit(tx, by, now, "token.issue", "token", issued.id.hex(),
                             fmt::format("{} for {} ({})", request.label, user, request.scopes.to_text()), ""));
        return issued;
      },
      deadline);
}

Result<std::vector<catalog::TokenRow>> Identity::list_tokens(const Principal& by, const Deadline& deadline) {
  return db_.read([&](Tx& tx) { return catalog::list_tokens(tx, by.user); }, deadline);
}

Status Identity::revoke_token(const Principal& by, TokenId id, const Deadline& deadline) {
  // Any token may end itself; the others take a full one.
  if (id != by.token) CAIRN_CHECK_OK(by.require(Scope::kFull));
  return db_.transact(
      [&](Tx& tx) -> Status {
        CAIRN_TRY(Time now, clock_.now(tx));
        CAIRN_TRY(bool revoked, catalog::revoke_token(tx, by.user, id, now));
        if (!revoked) {
          CAIRN_TRY(std::optional<catalog::TokenWithUser> found, catalog::find_token(tx, id));
          return nothing_to_revoke(by, id, found);
        }
        return audit(tx, by, now, "token.revoke", "token", id.hex(), "", "");
      },
      deadline);
}

Result<std::string> Identity::bootstrap_token(const std::string& name, const std::string& label, Scopes scopes,
                                              std::string_view current, const Deadline& deadline) {
  CAIRN_CHECK_OK(check_user_name(name));
  CAIRN_CHECK_OK(check_token_request(TokenRequest{label, scopes, std::nullopt}));
  if (!current.empty()) {
    Result<Principal> holder = authenticate(current, deadline);
    if (holder && holder->name == name && holder->role == Role::kAdmin && holder->scopes == scopes) return std::string(current);
    bool bad_token = !holder && http_status(holder.error().code()) < 500;
    if (!holder && !bad_token) return std::move(holder).error();
  }
  UserId fresh = UserId::random(random_);
  return db_.transact(
      [&](Tx& tx) -> Result<std::string> {
        CAIRN_TRY(Time now, clock_.now(tx));
        CAIRN_TRY(bool added, catalog::insert_user(tx, UserRow{fresh, name, "admin", "active", now}));
        CAIRN_TRY(std::optional<UserRow> user, catalog::find_user_by_name(tx, name));
        if (!user) return Error(Code::kInternal, fmt::format("the user '{}' is not there after it was made", name));
        if (user->role != "admin" || user->state != "active") {
          return Error(Code::kNotAdmin, fmt::format("'{}' exists but is not an active admin", name));
        }
        CAIRN_TRY(int64_t replaced, catalog::revoke_tokens_labelled(tx, user->id, label, now));
        CAIRN_TRY(IssuedToken issued, issue_in(tx, user->id, TokenRequest{label, scopes, std::nullopt}, now));
        Principal cairn;
        cairn.name = "cairn";
        CAIRN_CHECK_OK(audit(tx, cairn, now, "token.bootstrap", "token", issued.id.hex(),
                             fmt::format("{} for '{}'{}; {} replaced", label, name, added ? " (new)" : "", replaced), ""));
        return std::move(issued.text);
      },
      deadline);
}

}  // namespace cairn::identity
