// The whole HTTP surface of a server as one http::Handler: signed URLs of the store, the API with authentication, rights,
// idempotency and error documents, health and metrics.
//
// Thread-safe.
#pragma once

#include <functional>
#include <string>

#include "http/handler.h"
#include "http/server.h"
#include "server/api_handlers.h"
#include "server/object_routes.h"
#include "server/services.h"

namespace cairn::server {

class App final : public http::Handler {
 public:
  explicit App(Services& services);

  http::RoutePlan route(const http::RequestHead& head) override;

  // Where /metrics takes its numbers; set before serving.
  void set_counters(std::function<http::ServerCounters()> counters) { counters_ = std::move(counters); }

 private:
  http::Response answer(api::RouteMatch match, const http::Request& request);
  http::Response metrics(const http::Request& request);
  Result<identity::Principal> authenticate(const http::Request& request);
  Status authorize(const identity::Principal& who, api::Route route) const;
  Result<http::Response> perform(Call& call);
  // The stored answer of an earlier request with this id, if there is one.
  Result<std::optional<http::Response>> stored_answer(const Call& call);
  void store_answer(Call& call, const http::Response& response);

  Services& s_;
  ApiHandlers handlers_;
  ObjectRoutes objects_;
  std::function<http::ServerCounters()> counters_;
};

}  // namespace cairn::server
