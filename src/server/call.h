// One API request as a handler sees it: decoded route parameters, who asks, and, for a mutation, the key under which its
// answer is stored.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/json.h"
#include "api/routes.h"
#include "base/ids.h"
#include "catalog/requests.h"
#include "http/message.h"
#include "identity/principal.h"

namespace cairn::server {

struct Call {
  const http::Request& http;
  api::Route route;
  std::vector<std::string> parameters;
  api::Query query;
  identity::Principal who;
  RequestId request;                              // of a mutation; random when the client named none
  std::optional<catalog::RequestKey> stored_key;  // when the answer is to be stored
  bool stored = false;                            // it was, in the transaction that made the change

  const std::string& name() const { return parameters.at(0); }
  template <class IdType>
  Result<IdType> id() const {
    auto id = IdType::from_hex(parameters.at(0));
    if (!id) return Error(Code::kRequestInvalid, "the address holds no id of 32 hex digits");
    return *id;
  }
  template <class T>
  Result<T> body() const {
    return api::request_from_json<T>(http.body.empty() ? std::string_view("{}") : std::string_view(http.body));
  }
  // Complains about query parameters that the handler did not ask for.
  Status no_more_parameters() const { return query.finish(); }
};

}  // namespace cairn::server
