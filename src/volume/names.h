// Volume names: 1 to 40 of a-z, 0-9 and '-', first and last a letter or digit.
#pragma once

#include <string_view>

#include "base/result.h"

namespace cairn::volume {

// volume_name_invalid, with what is wrong about it.
Status check_volume_name(std::string_view name);

}  // namespace cairn::volume
