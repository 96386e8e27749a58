#include "catalog/schema.h"

namespace cairn::catalog {

std::span<const char* const> storage_schema() {
  static constexpr std::span<const char* const> kNone;
  return kNone;
}

}  // namespace cairn::catalog
