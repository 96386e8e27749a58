#include "catalog/dialect.h"

namespace cairn::catalog {

namespace {

bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view column_type(Engine engine, std::string_view word) {
  bool sqlite = engine == Engine::kSqlite;
  if (word == "bigint") return sqlite ? "integer" : "bigint";
  // Byte order on both: names and hex sort the same everywhere.
  if (word == "text") return sqlite ? "text" : "text collate \"C\"";
  if (word == "serial_key") {
    return sqlite ? "integer primary key autoincrement" : "bigint generated always as identity primary key";
  }
  return word;
}

}  // namespace

std::string_view clock_sql(Engine engine) {
  return engine == Engine::kSqlite ? "" : "select (extract(epoch from clock_timestamp()) * 1000000)::bigint";
}

std::string_view begin_sql(Engine engine, bool write) {
  if (engine == Engine::kSqlite) return write ? "begin immediate" : "begin deferred";
  return write ? "begin isolation level repeatable read read write" : "begin isolation level repeatable read read only";
}

std::string_view migration_lock_sql(Engine engine) {
  // LOCK takes no snapshot, so what is read after it is what the server before us committed.
  return engine == Engine::kSqlite ? "" : "lock table schema_migrations in exclusive mode";
}

std::string schema_sql(Engine engine, std::string_view statement) {
  std::string out;
  bool quoted = false;
  for (size_t i = 0; i < statement.size();) {
    if (!quoted && is_word(statement[i])) {
      size_t end = i;
      while (end < statement.size() && is_word(statement[end])) ++end;
      out += column_type(engine, statement.substr(i, end - i));
      i = end;
    } else {
      if (statement[i] == '\'') quoted = !quoted;
      out += statement[i++];
    }
  }
  if (engine == Engine::kSqlite && statement.starts_with("create table ")) out += " strict";
  return out;
}

Result<std::string> postgres_placeholders(std::string_view sql) {
  std::string out;
  out.reserve(sql.size());
  char quote = 0;
  for (size_t i = 0; i < sql.size(); ++i) {
    char c = sql[i];
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '?') {
      if (i + 1 == sql.size() || !is_digit(sql[i + 1])) {
        return Error(Code::kInternal, "a placeholder without a number in the statement: " + std::string(sql));
      }
      c = '$';
    }
    out += c;
  }
  return out;
}

}  // namespace cairn::catalog
