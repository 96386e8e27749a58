#include "identity/principal.h"

#include <array>
#include <utility>

#include <fmt/format.h>

namespace cairn::identity {

namespace {

// Sorted by name.
constexpr std::array<std::pair<Scope, std::string_view>, 3> kScopeNames{{
    {Scope::kFull, "full"},
    {Scope::kNode, "node"},
    {Scope::kRead, "read"},
}};

std::string_view scope_name(Scope scope) {
  for (const auto& [known, name] : kScopeNames) {
    if (known == scope) return name;
  }
  return "";
}

}  // namespace

std::string_view role_name(Role role) { return role == Role::kAdmin ? "admin" : "member"; }

std::optional<Role> role_from_name(std::string_view name) {
  if (name == "admin") return Role::kAdmin;
  if (name == "member") return Role::kMember;
  return std::nullopt;
}

std::string Scopes::to_text() const {
  std::string text;
  for (const auto& [scope, name] : kScopeNames) {
    if (!has(scope)) continue;
    if (!text.empty()) text += ' ';
    text += name;
  }
  return text;
}

std::optional<Scopes> Scopes::from_text(std::string_view text) {
  Scopes scopes;
  while (!text.empty()) {
    std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    bool known = false;
    for (const auto& [scope, name] : kScopeNames) {
      if (name != word || scopes.has(scope)) continue;
      scopes = scopes | scope;
      known = true;
    }
    if (!known) return std::nullopt;
  }
  if (scopes.empty()) return std::nullopt;
  return scopes;
}

Status Principal::require(Scope scope) const {
  if (scopes.allows(scope)) return ok();
  return Error(Code::kNotAllowed,
               fmt::format("this token may not do that: it has the scope '{}', not '{}'", scopes.to_text(), scope_name(scope)))
      .with_hint("Use another token.");
}

Status Principal::require_admin() const {
  if (is_admin()) return ok();
  if (role == Role::kAdmin) return require(Scope::kFull);
  return Error(Code::kNotAdmin, fmt::format("'{}' is not an admin", name)).with_hint("Ask an admin.");
}

}  // namespace cairn::identity
