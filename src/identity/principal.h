// Who is asking. A Principal is what authentication gives and every handler takes: the user, his role, and what the token
// he came with may do. A token never does more than its user may.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/result.h"

namespace cairn::identity {

enum class Role { kAdmin, kMember };
std::string_view role_name(Role role);
std::optional<Role> role_from_name(std::string_view name);

enum class Scope : uint8_t {
  kRead = 1,  // look at things and read data
  kFull = 2,  // all that the user may do, reading included; not what nodes do
  kNode = 4,  // what an agent does: register, take runs, report; nothing else
};

// A set of scopes, stored as sorted names with a blank between them ("full", "node read").
class Scopes {
 public:
  Scopes() = default;
  Scopes(Scope scope) : bits_(static_cast<uint8_t>(scope)) {}  // NOLINT(google-explicit-constructor)
  Scopes operator|(Scopes other) const { return Scopes(static_cast<uint8_t>(bits_ | other.bits_)); }
  bool has(Scope scope) const { return (bits_ & static_cast<uint8_t>(scope)) != 0; }
  // Full covers reading.
  bool allows(Scope scope) const { return has(scope) || (scope == Scope::kRead && has(Scope::kFull)); }
  bool empty() const { return bits_ == 0; }
  std::string to_text() const;
  // Nothing for an unknown name, a repeated one or an empty set.
  static std::optional<Scopes> from_text(std::string_view text);
  bool operator==(const Scopes&) const = default;

 private:
  explicit Scopes(uint8_t bits) : bits_(bits) {}
  uint8_t bits_ = 0;
};

struct Principal {
  UserId user;
  std::string name;
  Role role = Role::kMember;
  Scopes scopes;
  TokenId token;

  bool is_admin() const { return role == Role::kAdmin && scopes.has(Scope::kFull); }
  // not_allowed unless the token has the scope.
  Status require(Scope scope) const;
  // not_admin unless an admin asks with a full token.
  Status require_admin() const;
};

}  // namespace cairn::identity
