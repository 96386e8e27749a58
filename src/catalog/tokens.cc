#include "catalog/tokens.h"

namespace cairn::catalog {

namespace {

Value time_or_null(const std::optional<Time>& time) { return time ? Value(time->us) : Value(); }

Result<TokenRow> read_token(const Row& row) {
  TokenRow token;
  CAIRN_TRY(token.id, row.id<TokenId>(0));
  CAIRN_TRY(token.user, row.id<UserId>(1));
  token.label = row.text(2);
  token.secret_hash = row.text(3);
  token.scopes = row.text(4);
  token.created = row.time(5);
  token.expires = row.maybe_time(6);
  token.revoked = row.maybe_time(7);
  token.last_used = row.maybe_time(8);
  return token;
}

}  // namespace

Status insert_token(Tx& tx, const TokenRow& token) {
  CAIRN_TRY(Outcome added,
            tx.exec("insert into tokens (id, user_id, label, secret_hash, scopes, created_us, expires_us, revoked_us, last_used_us)"
                    " values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                    {token.id.hex(), token.user.hex(), token.label, token.secret_hash, token.scopes, token.created.us,
                     time_or_null(token.expires), time_or_null(token.revoked), time_or_null(token.last_used)}));
  return ok();
}

Result<std::optional<TokenWithUser>> find_token(Tx& tx, TokenId id) {
  CAIRN_TRY(std::optional<Row> row,
            tx.query_one("select t.id, t.user_id, t.label, t.secret_hash, t.scopes, t.created_us, t.expires_us, t.revoked_us,"
                         " t.last_used_us, u.name, u.role, u.state, u.created_us"
                         " from tokens t join users u on u.id = t.user_id where t.id = ?1",
                         {id.hex()}));
  if (!row) return std::optional<TokenWithUser>();
  TokenWithUser found;
  CAIRN_TRY(found.token, read_token(*row));
  found.user = UserRow{found.token.user, row->text(9), row->text(10), row->text(11), row->time(12)};
  return std::optional<TokenWithUser>(std::move(found));
}

Result<std::vector<TokenRow>> list_tokens(Tx& tx, UserId user) {
  CAIRN_TRY(Rows rows,
            tx.query("select id, user_id, label, secret_hash, scopes, created_us, expires_us, revoked_us, last_used_us"
                     " from tokens where user_id = ?1 order by created_us desc, id limit 1000",
                     {user.hex()}));
  std::vector<TokenRow> tokens;
  for (const Row& row : rows) {
    CAIRN_TRY(TokenRow token, read_token(row));
    tokens.push_back(std::move(token));
  }
  return tokens;
}

Result<bool> revoke_token(Tx& tx, UserId user, TokenId id, Time now) {
  CAIRN_TRY(int64_t revoked,
            tx.update("update tokens set revoked_us = ?1 where id = ?2 and user_id = ?3 and revoked_us is null",
                      {now.us, id.hex(), user.hex()}));
  return revoked == 1;
}

Result<int64_t> revoke_tokens_labelled(Tx& tx, UserId user, const std::string& label, Time now) {
  return tx.update("update tokens set revoked_us = ?1 where user_id = ?2 and label = ?3 and revoked_us is null",
                   {now.us, user.hex(), label});
}

Status touch_token(Tx& tx, TokenId id, Time now, Duration at_least) {
  CAIRN_TRY(Outcome touched, tx.exec("update tokens set last_used_us = ?1 where id = ?2"
                                     " and (last_used_us is null or last_used_us < ?3)",
                                     {now.us, id.hex(), (now - at_least).us}));
  return ok();
}

}  // namespace cairn::catalog
