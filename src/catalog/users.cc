#include "catalog/users.h"

#include <algorithm>

namespace cairn::catalog {

namespace {

constexpr int64_t kPageMax = 1000;

Result<UserRow> read_user(const Row& row) {
  UserRow user;
  CAIRN_TRY(user.id, row.id<UserId>(0));
  user.name = row.text(1);
  user.role = row.text(2);
  user.state = row.text(3);
  user.created = row.time(4);
  return user;
}

Result<std::optional<UserRow>> read_one(const std::optional<Row>& row) {
  if (!row) return std::optional<UserRow>();
  CAIRN_TRY(UserRow user, read_user(*row));
  return std::optional<UserRow>(std::move(user));
}

}  // namespace

Result<bool> insert_user(Tx& tx, const UserRow& user) {
  CAIRN_TRY(int64_t added, tx.update("insert into users (id, name, role, state, created_us) values (?1, ?2, ?3, ?4, ?5)"
                                     " on conflict (name) do nothing",
                                     {user.id.hex(), user.name, user.role, user.state, user.created.us}));
  return added == 1;
}

Result<std::optional<UserRow>> find_user(Tx& tx, UserId id) {
  CAIRN_TRY(std::optional<Row> row,
            tx.query_one("select id, name, role, state, created_us from users where id = ?1", {id.hex()}));
  return read_one(row);
}

Result<std::optional<UserRow>> find_user_by_name(Tx& tx, std::string_view name) {
  CAIRN_TRY(std::optional<Row> row,
            tx.query_one("select id, name, role, state, created_us from users where name = ?1", {std::string(name)}));
  return read_one(row);
}

Result<std::vector<UserRow>> list_users(Tx& tx, std::string_view after, int64_t limit) {
  CAIRN_TRY(Rows rows,
            tx.query("select id, name, role, state, created_us from users where name > ?1 order by name limit ?2",
                     {std::string(after), std::clamp<int64_t>(limit, 1, kPageMax)}));
  std::vector<UserRow> users;
  for (const Row& row : rows) {
    CAIRN_TRY(UserRow user, read_user(row));
    users.push_back(std::move(user));
  }
  return users;
}

Result<bool> set_user_state(Tx& tx, UserId id, std::string_view state) {
  // Every active admin's row is written, so that two admins who disable each other at once cannot both succeed.
  CAIRN_TRY(Outcome locked, tx.exec("update users set state = state where role = 'admin' and state = 'active'"));
  CAIRN_TRY(int64_t changed,
            tx.update("update users set state = ?1 where id = ?2 and (?1 = 'active' or role <> 'admin' or state <> 'active'"
                      " or exists (select 1 from users o where o.role = 'admin' and o.state = 'active' and o.id <> ?2))",
                      {std::string(state), id.hex()}));
  return changed == 1;
}

}  // namespace cairn::catalog
