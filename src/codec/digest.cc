#include "codec/digest.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include <climits>

#include "base/check.h"
#include "codec/hex.h"

namespace cairn::codec {
namespace {

// Looked up once: fetching an algorithm by name costs more than hashing a small chunk.
const EVP_MD* sha256_algorithm() {
  static const EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  CAIRN_CHECK(algorithm != nullptr);
  return algorithm;
}

}  // namespace

Digest Digest::from_bytes(ByteView view) {
  CAIRN_CHECK(view.size() == kSize);
  Digest digest;
  std::memcpy(digest.bytes.data(), view.data(), kSize);
  return digest;
}

std::optional<Digest> Digest::from_hex(std::string_view hex) {
  if (hex.size() != 2 * kSize) return std::nullopt;
  std::optional<Bytes> decoded = hex_decode(hex);
  if (!decoded) return std::nullopt;
  return from_bytes(*decoded);
}

std::string Digest::hex() const {
  return hex_encode(view());
}

uint64_t Digest::prefix_u64() const {
  uint64_t value = 0;
  for (size_t i = 0; i < 8; ++i) value |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  return value;
}

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() { restart(); }
  ~State() { EVP_MD_CTX_free(context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  void restart() { CAIRN_CHECK(context && EVP_DigestInit_ex2(context, sha256_algorithm(), nullptr) == 1); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

Sha256& Sha256::update(ByteView data) {
  CAIRN_CHECK(EVP_DigestUpdate(state_->context, data.data(), data.size()) == 1);
  return *this;
}

Digest Sha256::finish() {
  Digest digest;
  unsigned int size = 0;
  CAIRN_CHECK(EVP_DigestFinal_ex(state_->context, digest.bytes.data(), &size) == 1 && size == Digest::kSize);
  state_->restart();
  return digest;
}

Digest sha256(ByteView data) {
  thread_local Sha256 hash;
  return hash.update(data).finish();
}

Digest hmac_sha256(ByteView key, ByteView data) {
  CAIRN_CHECK(key.size() <= INT_MAX);
  Digest digest;
  unsigned int size = 0;
  // HMAC() takes a null key as "the key of the last call".
  static const uint8_t kEmpty = 0;
  const void* key_bytes = key.empty() ? &kEmpty : key.data();
  CAIRN_CHECK(HMAC(sha256_algorithm(), key_bytes, static_cast<int>(key.size()), data.data(), data.size(),
                   digest.bytes.data(), &size) != nullptr &&
              size == Digest::kSize);
  return digest;
}

bool constant_time_equal(ByteView a, ByteView b) {
  return a.size() == b.size() && (a.empty() || CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0);
}

}  // namespace cairn::codec
