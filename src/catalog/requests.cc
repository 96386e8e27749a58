#include "catalog/requests.h"

#include <fmt/format.h>

namespace cairn::catalog {

namespace {

Error reused(const RequestKey& key) {
  return Error(Code::kRequestIdReused, fmt::format("request id {} was already used for another request", key.id.hex()))
      .with_hint("Send a new request with a new id.");
}

}  // namespace

Result<std::optional<StoredResponse>> find_request(Tx& tx, const RequestKey& key) {
  CAIRN_TRY(std::optional<Row> row,
            tx.query_one("select route, body_hash, status, response from requests where user_id = ?1 and request_id = ?2",
                         {key.user.hex(), key.id.hex()}));
  if (!row) return std::optional<StoredResponse>();
  if (row->text(0) != key.route || row->text(1) != key.body_hash) return reused(key);
  return std::optional<StoredResponse>(StoredResponse{row->integer(2), row->text(3)});
}

Status store_request(Tx& tx, const RequestKey& key, const StoredResponse& response, Time now) {
  if (response.response.size() > kResponseBytesMax) {
    return Error(Code::kLimitExceeded, fmt::format("a response of {} bytes is too large to keep", response.response.size()));
  }
  CAIRN_TRY(int64_t stored,
            tx.update("insert into requests (user_id, request_id, route, body_hash, status, response, created_us)"
                      " values (?1, ?2, ?3, ?4, ?5, ?6, ?7) on conflict do nothing",
                      {key.user.hex(), key.id.hex(), key.route, key.body_hash, response.status, response.response, now.us}));
  if (stored != 1) return reused(key);
  return ok();
}

Result<int64_t> prune_requests(Tx& tx, Time before, int64_t limit) {
  return tx.update("delete from requests where (user_id, request_id) in (select user_id, request_id from requests"
                   " where created_us < ?1 order by created_us limit ?2)",
                   {before.us, limit});
}

}  // namespace cairn::catalog
