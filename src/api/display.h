// How bytes of a path are shown to people: printable UTF-8 as it is, everything else as \xNN, a backslash as \\.
#pragma once

#include <string>
#include <string_view>

namespace cairn::api {

std::string display_path(std::string_view bytes);

}  // namespace cairn::api
