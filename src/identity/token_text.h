// The text of an API token: "cairn_<id>_<secret>", id 32 and secret 64 lower-case hex digits. The id finds the row, the
// secret (256 random bits) proves possession; stored is its SHA-256 alone, which is enough for a secret nobody can guess.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/random.h"

namespace cairn::identity {

struct TokenText {
  TokenId id;
  std::string secret;  // 64 hex digits

  static TokenText random(Random& random);
  // Nothing unless the text has exactly that form.
  static std::optional<TokenText> parse(std::string_view text);
  std::string text() const;
  // What is stored: SHA-256 of the secret's digits, hex.
  std::string secret_hash() const;
  // In a time that does not depend on where they differ.
  bool matches(std::string_view stored_hash) const;
};

// The token in an Authorization header's value ("Bearer <token>"); nothing for another scheme.
std::optional<std::string_view> bearer_token(std::string_view header_value);

}  // namespace cairn::identity
