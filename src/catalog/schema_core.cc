#include "catalog/schema.h"

namespace cairn::catalog {

std::span<const char* const> core_schema() {
  static constexpr const char* kStatements[] = {
      "create table catalog_meta ("
      " name text primary key,"
      " value bigint not null)",
      "insert into catalog_meta (name, value) values ('epoch', 1)",

      // One row. now_us seldom falls (catalog_clock.h); raw_us is the clock as it read at the last stamp; lease_us is lease time.
      "create table catalog_clock ("
      " id bigint primary key,"
      " now_us bigint not null,"
      " raw_us bigint not null,"
      " lease_us bigint not null,"
      " paused_us bigint not null)",
      "insert into catalog_clock (id, now_us, raw_us, lease_us, paused_us) values (1, 0, 0, 0, 0)",

      "create table requests ("
      " user_id text not null,"
      " request_id text not null,"
      " route text not null,"
      " body_hash text not null,"
      " status bigint not null,"
      " response text not null,"
      " created_us bigint not null,"
      " primary key (user_id, request_id))",
      "create index requests_created on requests (created_us)",

      "create table events ("
      " seq serial_key,"
      " at_us bigint not null,"
      " actor_id text,"
      " actor_name text not null,"
      " action text not null,"
      " object_kind text not null,"
      " object_name text not null,"
      " detail text not null,"
      " origin text not null)",
      "create index events_object on events (object_kind, object_name, seq)",
      "create index events_at on events (at_us)",

      "create table users ("
      " id text primary key,"
      " name text not null,"
      " role text not null,"
      " state text not null,"
      " created_us bigint not null,"
      " constraint users_name_unique unique (name),"
      " constraint users_role_known check (role in ('admin', 'member')),"
      " constraint users_state_known check (state in ('active', 'disabled')))",

      "create table tokens ("
      " id text primary key,"
      " user_id text not null references users (id),"
      " label text not null,"
      " secret_hash text not null,"
      " scopes text not null,"
      " created_us bigint not null,"
      " expires_us bigint,"
      " revoked_us bigint,"
      " last_used_us bigint)",
      "create index tokens_user on tokens (user_id, created_us)",

      "create table tasks ("
      " name text primary key,"
      " holder text not null,"
      " ticket bigint not null,"
      " expires_lease_us bigint not null)",
  };
  return kStatements;
}

}  // namespace cairn::catalog
