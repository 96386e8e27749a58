// PUT and GET of objects behind signed URLs: the only way by which bulk bytes pass through this process, and nothing but
// objects of the store can be reached by it. A PUT is streamed into the store, its length and CRC32C are checked before it
// becomes visible, and a second one is object_exists. A GET is sent from the file, whole or by range.
//
// Thread-safe.
#pragma once

#include "base/result.h"
#include "http/handler.h"
#include "object/object_store.h"
#include "server/signed_urls.h"

namespace cairn::server {

class ObjectRoutes {
 public:
  // A PUT that takes longer fails: the largest changeset at 100 KB a second.
  static constexpr Duration kPutTime = hours(6);

  ObjectRoutes(object::ObjectStore& objects, const SignedUrls& urls) : objects_(objects), urls_(urls) {}

  static bool covers(const http::RequestHead& head) { return head.raw_path.starts_with(SignedUrls::kPrefix); }
  http::RoutePlan plan(const http::RequestHead& head);

 private:
  http::Response get(const http::Request& request);
  Result<std::unique_ptr<http::BodySink>> open_put(const http::Request& request);

  object::ObjectStore& objects_;
  const SignedUrls& urls_;
};

}  // namespace cairn::server
