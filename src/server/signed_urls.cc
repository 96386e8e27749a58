#include "server/signed_urls.h"

#include <limits>

#include "api/routes.h"
#include "base/check.h"
#include "codec/digest.h"
#include "codec/hex.h"

namespace cairn::server {

struct SignedUrls::Parts {
  std::string_view method;
  std::string_view key;
  uint64_t size_bytes;
  uint32_t crc32c;
  uint64_t expires_s;
};

SignedUrls::SignedUrls(codec::Bytes secret, Clock& clock) : secret_(std::move(secret)), clock_(clock) {
  CAIRN_CHECK(secret_.size() == kSecretBytes);
}

std::string SignedUrls::signature(const Parts& parts) const {
  // Every part but the key is free of newlines by its type, the key by ObjectKey's alphabet: the text has one reading.
  std::string text = "cairn-signed-url-1\n";
  text.append(parts.method).append("\n").append(parts.key).append("\n");
  text += std::to_string(parts.size_bytes) + "\n" + codec::hex_u32(parts.crc32c) + "\n" + std::to_string(parts.expires_s);
  return codec::hmac_sha256(secret_, codec::as_bytes(text)).hex();
}

SignedUrls::Url SignedUrls::sign(std::string_view method, const object::ObjectKey& key, uint64_t size_bytes,
                                 uint32_t crc32c) const {
  int64_t expires_s = (clock_.now() + kLife).us / 1'000'000;
  Parts parts{method, key.text(), size_bytes, crc32c, static_cast<uint64_t>(expires_s)};
  Url url;
  url.text = std::string(kPrefix) + key.text() + "?length=" + std::to_string(size_bytes) + "&crc32c=" + codec::hex_u32(crc32c) +
             "&expires=" + std::to_string(expires_s) + "&signature=" + signature(parts);
  url.expires_at = Time{expires_s * 1'000'000};
  return url;
}

SignedUrls::Url SignedUrls::get(const object::ObjectKey& key, uint64_t size_bytes) const { return sign("GET", key, size_bytes, 0); }

SignedUrls::Url SignedUrls::put(const object::ObjectKey& key, uint64_t size_bytes, uint32_t crc32c) const {
  return sign("PUT", key, size_bytes, crc32c);
}

Result<SignedObject> SignedUrls::check(std::string_view method, std::string_view raw_path, std::string_view raw_query) const {
  Error bad(Code::kUrlInvalid, "this is not a URL that this server signed");
  if (!raw_path.starts_with(kPrefix)) return bad;
  auto key = object::ObjectKey::parse(raw_path.substr(kPrefix.size()));
  auto query = api::Query::parse(raw_query);
  if (!key || !query) return bad;
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max() / 1'000'000;
  auto size = query->number("length", kMax + 1, kMax);
  auto expires = query->number("expires", kMax + 1, kMax);
  auto crc = codec::hex_decode_u32(query->text("crc32c"));
  std::string given = query->text("signature");
  if (!size || *size > kMax || !expires || *expires > kMax || !crc || !query->finish()) return bad;
  Parts parts{method, key->text(), *size, *crc, *expires};
  if (!codec::constant_time_equal(codec::as_bytes(signature(parts)), codec::as_bytes(given))) return bad;
  if (Time{static_cast<int64_t>(*expires) * 1'000'000} <= clock_.now()) {
    return Error(Code::kUrlInvalid, "the signed URL has expired", "ask the server for a new one");
  }
  return SignedObject{*std::move(key), *size, *crc};
}

}  // namespace cairn::server
