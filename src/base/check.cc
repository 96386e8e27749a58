#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace cairn {

void check_failed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "cairn: internal check failed at %s:%d: %s\n", file, line, condition);
  std::abort();
}

}  // namespace cairn
