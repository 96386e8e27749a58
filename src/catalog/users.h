// Rows of users. A name is unique and never changes; a user is disabled, not removed, because other rows name him.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/db.h"

namespace cairn::catalog {

struct UserRow {
  UserId id;
  std::string name;
  std::string role;   // admin | member
  std::string state;  // active | disabled
  Time created;
};

// False when the name is taken.
Result<bool> insert_user(Tx& tx, const UserRow& user);
Result<std::optional<UserRow>> find_user(Tx& tx, UserId id);
Result<std::optional<UserRow>> find_user_by_name(Tx& tx, std::string_view name);
// By name, after `after`, at most min(limit, 1000).
Result<std::vector<UserRow>> list_users(Tx& tx, std::string_view after, int64_t limit);
// False when there is no such user. The last active admin stays one: then false too.
Result<bool> set_user_state(Tx& tx, UserId id, std::string_view state);

}  // namespace cairn::catalog
