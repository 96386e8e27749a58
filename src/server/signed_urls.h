// URLs of objects in a directory store, which this server serves itself. A URL is the grant: whoever has it may PUT exactly the
// object it names (key, length, CRC32C; once, because objects are never replaced) or GET it, until it expires, at most half an
// hour after it was signed. The signature is HMAC-SHA256 over method, key, length, CRC32C and expiry; the key lies outside the
// store's folder, and several servers of one store would have to share it.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "codec/bytes.h"
#include "object/object_key.h"

namespace cairn::server {

struct SignedObject {
  object::ObjectKey key;
  uint64_t size_bytes = 0;
  uint32_t crc32c = 0;  // of a PUT
};

class SignedUrls {
 public:
  static constexpr size_t kSecretBytes = 32;
  static constexpr Duration kLife = minutes(30);
  static constexpr std::string_view kPrefix = "/store/";

  // REQUIRES: secret.size() == kSecretBytes.
  SignedUrls(codec::Bytes secret, Clock& clock);

  struct Url {
    std::string text;  // "/store/<key>?…", below the server's own URL
    Time expires_at;
  };
  Url get(const object::ObjectKey& key, uint64_t size_bytes) const;
  Url put(const object::ObjectKey& key, uint64_t size_bytes, uint32_t crc32c) const;

  // url_invalid, without saying which part is wrong unless it is the expiry. `raw_path` and `raw_query` as received.
  Result<SignedObject> check(std::string_view method, std::string_view raw_path, std::string_view raw_query) const;

 private:
  struct Parts;
  std::string signature(const Parts& parts) const;
  Url sign(std::string_view method, const object::ObjectKey& key, uint64_t size_bytes, uint32_t crc32c) const;

  codec::Bytes secret_;
  Clock& clock_;
};

}  // namespace cairn::server
