// Results of mutating requests, kept under the request id in the same transaction as the mutation, so that asking again
// gives the same answer and does nothing. A request id belongs to its user: nobody reads another's result by its id.
//
//   find_request → a result: answer it. Nothing: do the work, then store_request, in this transaction.
#pragma once

#include <optional>
#include <string>

#include "catalog/db.h"

namespace cairn::catalog {

struct RequestKey {
  UserId user;
  RequestId id;
  std::string route;      // method and path
  std::string body_hash;  // SHA-256 of the body, hex
};

struct StoredResponse {
  int64_t status = 0;
  std::string response;  // JSON
};

inline constexpr Duration kRequestsKept = hours(7 * 24);
inline constexpr size_t kResponseBytesMax = size_t{4} << 20;

// kRequestIdReused when the id was used for another route or body.
Result<std::optional<StoredResponse>> find_request(Tx& tx, const RequestKey& key);
// kRequestIdReused when the id is taken.
Status store_request(Tx& tx, const RequestKey& key, const StoredResponse& response, Time now);
// Removes at most `limit` of the results created before `before`; the number removed.
Result<int64_t> prune_requests(Tx& tx, Time before, int64_t limit);

}  // namespace cairn::catalog
