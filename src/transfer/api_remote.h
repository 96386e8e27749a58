// Remote over the HTTP API: calls go to the server, bytes to the signed URLs it gives.
//
// Thread-safe. REQUIRES: the client outlives it.
#pragma once

#include <memory>
#include <string>

#include "transfer/remote.h"

namespace cairn::client {
class ApiClient;
}

namespace cairn::transfer {

// `volume`: a name, or the '~' name of a workspace.
std::unique_ptr<Remote> make_api_remote(client::ApiClient& client, const std::string& volume);

}  // namespace cairn::transfer
