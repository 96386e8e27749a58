#include "catalog/schema.h"

namespace cairn::catalog {

std::span<const char* const> storage_schema() {
  static constexpr const char* kStatements[] = {
      // One domain of deduplication and garbage collection. `ticket` counts marks and every touch of a pack (F1).
      "create table stores ("
      " id text primary key,"
      " owner_user_id text not null,"
      " state text not null,"
      " epoch bigint not null,"
      " ticket bigint not null,"
      " gc_off bigint not null,"
      " created_us bigint not null,"
      " removing_since_us bigint,"
      " constraint stores_state_known check (state in ('live', 'removing')))",
      "create index stores_owner on stores (owner_user_id)",

      "create table volumes ("
      " id text primary key,"
      " owner_user_id text not null,"
      " team_id text,"
      " store_id text not null references stores (id),"
      " name text not null,"
      " kind text not null,"
      " state text not null,"
      " size_bytes bigint not null,"
      " history text not null,"
      " head_number bigint not null,"
      " last_number bigint not null,"
      " head_entries bigint not null,"
      " head_files bigint not null,"
      " head_bytes bigint not null,"
      " fence bigint not null,"
      " created_by text not null,"
      " created_us bigint not null,"
      " trashed_us bigint,"
      " purge_at_us bigint,"
      " delete_error text,"
      " publishing_request_id text,"
      " publishing_claim text,"
      " publishing_until_lease_us bigint,"
      " constraint volumes_kind_known check (kind in ('user', 'workspace')),"
      " constraint volumes_state_known check (state in ('created', 'trashed', 'deleting', 'delete_failed')),"
      " constraint volumes_head_known check (head_number <= last_number),"
      " constraint volumes_contents_fit check (head_bytes >= 0 and head_bytes <= size_bytes))",
      "create unique index volumes_name on volumes (owner_user_id, name) where state = 'created'",
      "create index volumes_owner on volumes (owner_user_id, name, id)",
      "create index volumes_store on volumes (store_id)",
      "create index volumes_state on volumes (state, id)",

      // Every row is a root of garbage collection. Number 0 is the empty volume. `guard` is raised by whoever comes to
      // rely on
      // the row, so that a concurrent removal conflicts with it.
      "create table snapshots ("
      " volume_id text not null references volumes (id),"
      " number bigint not null,"
      " root_digest text not null,"
      " root_place text not null,"
      " record_pack_id text,"
      " kind text not null,"
      " message text not null,"
      " author_user_id text not null,"
      " author_name text not null,"
      " entries bigint not null,"
      " files bigint not null,"
      " bytes bigint not null,"
      " base_number bigint not null,"
      " fence bigint not null,"
      " upload_id text,"
      " lease_id text,"
      " interim bigint not null,"
      " side bigint not null,"
      " side_label text not null,"
      " tag text not null,"
      " guard bigint not null,"
      " created_us bigint not null,"
      " superseded_us bigint,"
      " expires_us bigint,"
      " primary key (volume_id, number))",
      "create index snapshots_side on snapshots (volume_id, side)",

      "create table leases ("
      " id text primary key,"
      " volume_id text not null references volumes (id),"
      " mode text not null,"
      " kind text not null,"
      " holder text not null,"
      " user_id text not null,"
      " user_name text not null,"
      " source text not null,"
      " secret_hash text not null,"
      " fence bigint not null,"
      " state text not null,"
      " since_us bigint not null,"
      " seen_us bigint not null,"
      " seen_lease_us bigint not null,"
      " expires_lease_us bigint not null,"
      " ended_us bigint,"
      " end_reason text,"
      " constraint leases_mode_known check (mode in ('exclusive', 'shared')),"
      " constraint leases_kind_known check (kind in ('upload', 'run', 'session', 'server')),"
      " constraint leases_state_known check (state in ('current', 'ended')))",
      "create unique index leases_one_writer on leases (volume_id) where state = 'current' and mode = 'exclusive'",
      "create unique index leases_fence on leases (volume_id, fence)",
      "create index leases_current on leases (volume_id, state)",

      "create table uploads ("
      " id text primary key,"
      " volume_id text not null references volumes (id),"
      " store_id text not null,"
      " lease_id text not null references leases (id),"
      " user_id text not null,"
      " source text not null,"
      " kind text not null,"
      " holder text not null,"
      " state text not null,"
      " base_number bigint not null,"
      " published_number bigint not null,"
      " side_number bigint not null,"
      " promised_count bigint not null,"
      " opened_us bigint not null,"
      " ended_us bigint,"
      " keep_until_us bigint,"
      " constraint uploads_state_known check (state in ('open', 'published', 'closed', 'lapsed')),"
      " constraint uploads_promised_positive check (promised_count >= 0))",
      "create index uploads_volume on uploads (volume_id, state)",
      "create index uploads_lease on uploads (lease_id)",
      "create index uploads_state on uploads (state, keep_until_us)",

      // promised → live → condemned → deleting → (no row). Only a pack with a seal can become live again.
      "create table packs ("
      " id text primary key,"
      " store_id text not null references stores (id),"
      " upload_id text,"
      " kind text not null,"
      " object_key text not null,"
      " state text not null,"
      " size_bytes bigint not null,"
      " crc32c bigint not null,"
      " seal text,"
      " frames bigint not null,"
      " index_offset bigint not null,"
      " created_ticket bigint not null,"
      " touched_ticket bigint not null,"
      " created_us bigint not null,"
      " condemned_us bigint,"
      " delete_attempts bigint not null,"
      " delete_error text,"
      " constraint packs_kind_known check (kind in ('data', 'changeset', 'nodes', 'record')),"
      " constraint packs_state_known check (state in ('promised', 'live', 'condemned', 'deleting')),"
      " constraint packs_size_positive check (size_bytes > 0))",
      "create index packs_store on packs (store_id, id)",
      "create index packs_state on packs (store_id, state, condemned_us)",
      "create index packs_upload on packs (upload_id, id)",

      // Which packs the roots of a volume have named: the right to read them and to name them again (F8, S7).
      "create table volume_packs ("
      " volume_id text not null,"
      " pack_id text not null,"
      " primary key (volume_id, pack_id))",
      "create index volume_packs_pack on volume_packs (pack_id)",

      "create table pins ("
      " id text primary key,"
      " volume_id text not null references volumes (id),"
      " number bigint not null,"
      " purpose text not null,"
      " created_us bigint not null,"
      " expires_lease_us bigint not null)",
      "create index pins_snapshot on pins (volume_id, number)",
      "create index pins_expiry on pins (expires_lease_us)",

      "create table publish_ops ("
      " request_id text primary key,"
      " body_hash text not null,"
      " volume_id text not null,"
      " upload_id text not null,"
      " changeset_pack_id text not null,"
      " kind text not null,"
      " message text not null,"
      " interim bigint not null,"
      " base_number bigint,"
      " state text not null,"
      " snapshot_number bigint not null,"
      " root_digest text not null,"
      " entries bigint not null,"
      " files bigint not null,"
      " bytes bigint not null,"
      " side_label text not null,"
      " side_reason text not null,"
      " error_code text not null,"
      " error_message text not null,"
      " error_hint text not null,"
      " created_us bigint not null,"
      " finished_us bigint,"
      " constraint publish_ops_state_known check (state in ('running', 'done', 'failed')))",
      "create index publish_ops_state on publish_ops (state, created_us)",
  };
  return kStatements;
}

}  // namespace cairn::catalog
