// The catalog's schema, as an ordered list of numbered migrations. Each is applied in one transaction together with its row
// in schema_migrations. A released migration is never edited: a change is a new one at the end of the list.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "catalog/db.h"

namespace cairn::catalog {

struct Migration {
  int64_t number;
  const char* name;
  std::vector<std::span<const char* const>> statements;  // in the words of schema.h
};

// All migrations of this build, numbered 1, 2, …
const std::vector<Migration>& migrations();

// Brings the schema up to date; does nothing when it is. kFormatUnsupported when a newer Cairn wrote the catalog. Several
// servers may call it at once.
Status migrate(Db& db, Clock& clock = system_clock());
// The same with a given list, for tests.
Status migrate(Db& db, const std::vector<Migration>& list, Clock& clock = system_clock());

// The number of the last applied migration; 0 for an empty catalog.
Result<int64_t> schema_version(Db& db);

}  // namespace cairn::catalog
