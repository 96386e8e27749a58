// How a client checks the server it talks to. Verification cannot be switched off: a private authority is named
// instead.
#pragma once

#include <string>

namespace cairn::net {

struct TlsSettings {
  std::string ca_file;  // PEM; instead of the system's authorities. Empty: the system's.
};

}  // namespace cairn::net
