// What one API call is made of, for the .cc files of this module.
#pragma once

#include <optional>
#include <string>

#include "api/routes.h"
#include "base/clock.h"
#include "base/ids.h"
#include "client/api_client.h"

namespace cairn::client {

struct ApiClient::Call {
  api::Route route;
  std::string path;   // percent-encoded
  std::string query;  // "" or "?a=1"
  std::string body;   // JSON; empty: none
  RequestId request;  // none: a new one for a mutation
  Duration longer{0};  // the server may wait this long by intention

  std::string target() const { return path + query; }
};

struct ApiClient::Reply {
  std::string url;  // without the query
  std::string body;
  std::optional<std::string> next;
};

struct ApiClient::Try {
  Result<Reply> result;
  bool again = false;      // the failure is one that waiting may cure
  bool unknown = false;    // the request may have been done
  bool answered = false;   // by whatever listens there
  Duration at_least{0};    // what the server asked us to wait
};

}  // namespace cairn::client
