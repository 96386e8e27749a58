#include "catalog/schema.h"

namespace cairn::catalog {

std::span<const char* const> removal_clock_schema() {
  static constexpr const char* kStatements[] = {
      // removal_us is the time for removals; hold_until_lease_us when a jump of the clock is believed (0 = none is under
      // way).
      "alter table catalog_clock add column removal_us bigint not null default 0",
      "alter table catalog_clock add column hold_until_lease_us bigint not null default 0",
      "update catalog_clock set removal_us = now_us",
  };
  return kStatements;
}

std::span<const char* const> given_up_schema() {
  static constexpr const char* kStatements[] = {
      // 1 = somebody said that what its holder has not published may be lost with the volume.
      "alter table uploads add column given_up bigint not null default 0",
  };
  return kStatements;
}

}  // namespace cairn::catalog
