// The three fragments in which the engines differ (clock, begin, column types), and the placeholder rewriting. Pure text.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "catalog/db.h"

namespace cairn::catalog {

// A SELECT of one int64: microseconds since 1970 by the database server's clock, moving within a transaction. Empty for
// SQLite, whose clock is the host's.
std::string_view clock_sql(Engine engine);

// How a transaction begins: writers take SQLite's write lock at once, so that they wait instead of failing later.
std::string_view begin_sql(Engine engine, bool write);

// What keeps two servers from migrating at once; empty where begin already does.
std::string_view migration_lock_sql(Engine engine);

// A schema statement (schema.h) in the engine's own words.
std::string schema_sql(Engine engine, std::string_view statement);

// ?1 becomes $1 outside of quotes; a bare "?" is refused.
Result<std::string> postgres_placeholders(std::string_view sql);

}  // namespace cairn::catalog
