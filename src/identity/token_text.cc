#include "identity/token_text.h"

#include <algorithm>

#include "codec/bytes.h"
#include "codec/digest.h"
#include "codec/hex.h"

namespace cairn::identity {

namespace {

constexpr std::string_view kPrefix = "cairn_";
constexpr size_t kIdDigits = 32;

}  // namespace

TokenText TokenText::random(Random& random) {
  return TokenText{TokenId::random(random), codec::random_secret(random)};
}

std::optional<TokenText> TokenText::parse(std::string_view text) {
  if (text.size() != kPrefix.size() + kIdDigits + 1 + codec::kSecretDigits || !text.starts_with(kPrefix)) return std::nullopt;
  text.remove_prefix(kPrefix.size());
  std::optional<TokenId> id = TokenId::from_hex(text.substr(0, kIdDigits));
  std::string_view secret = text.substr(kIdDigits + 1);
  if (!id || text[kIdDigits] != '_' || !codec::hex_decode(secret)) return std::nullopt;
  return TokenText{*id, std::string(secret)};
}

std::string TokenText::text() const { return std::string(kPrefix) + id.hex() + "_" + secret; }

std::string TokenText::secret_hash() const { return codec::sha256(codec::as_bytes(secret)).hex(); }

bool TokenText::matches(std::string_view stored_hash) const {
  std::string hash = secret_hash();
  return codec::constant_time_equal(codec::as_bytes(hash), codec::as_bytes(stored_hash));
}

std::optional<std::string_view> bearer_token(std::string_view header_value) {
  constexpr std::string_view kScheme = "bearer ";
  if (header_value.size() < kScheme.size()) return std::nullopt;
  for (size_t i = 0; i < kScheme.size(); ++i) {
    char c = header_value[i];
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c != kScheme[i]) return std::nullopt;
  }
  header_value.remove_prefix(kScheme.size());
  while (header_value.starts_with(' ')) header_value.remove_prefix(1);
  while (header_value.ends_with(' ')) header_value.remove_suffix(1);
  return header_value;
}

}  // namespace cairn::identity
