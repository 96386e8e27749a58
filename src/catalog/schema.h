// The tables of the first schema, one list of statements a domain. The text is PostgreSQL's with three words of our own
// reading, lower case: `bigint` and `text` (the only column types) and `serial_key` (an int64 primary key the engine
// counts up). dialect.h turns them into each engine's own; SQLite tables become STRICT. Use `not null` wherever a column
// always has a value; no triggers and no `on delete cascade` (see `affected` in db.h); name what can be violated
// (`constraint x_positive check (…)`): the name is all that an error may show.
#pragma once

#include <span>

namespace cairn::catalog {

std::span<const char* const> core_schema();     // meta, clock, requests, events, users, tokens, tasks
std::span<const char* const> storage_schema();  // volumes, snapshots, packs, uploads, leases, pins, publish operations
std::span<const char* const> work_schema();     // runs, attempts, nodes, logs

// What later schemas add.
std::span<const char* const> removal_clock_schema();
std::span<const char* const> given_up_schema();

}  // namespace cairn::catalog
