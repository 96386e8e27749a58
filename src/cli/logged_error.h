// What a program of Cairn wrote last on its way out, read back from its log: so that who started it can say the same.
// A pure function.
#pragma once

#include <optional>
#include <string_view>

#include "base/error.h"

namespace cairn::cli {

// The last error in `log` as Output::fail prints it ("cairn: MESSAGE (code)", then "  hint: HINT"). Nothing when there is none.
std::optional<Error> last_logged_error(std::string_view log);

}  // namespace cairn::cli
