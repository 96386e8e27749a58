// How many GPUs a run asks for, and of which type, as people write it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cairn {

struct GpuWish {
  int64_t count = 0;
  std::string type;  // empty: any
};
// "", "cpu", "N", "TYPE", "TYPE:N". usage for anything else.
Result<GpuWish> parse_gpu(std::string_view text);

}  // namespace cairn
