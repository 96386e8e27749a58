#include "catalog/schema.h"

namespace cairn::catalog {

std::span<const char* const> work_schema() {
  static constexpr const char* kStatements[] = {
      // Lists of bytes (argv, environment) are hex words with blanks between them: see runs.cc.
      "create table nodes ("
      " id text primary key,"
      " name text not null,"
      " state text not null,"
      " draining bigint not null,"
      " version text not null,"
      " boot_id text not null,"
      " cpus bigint not null,"
      " memory_bytes bigint not null,"
      " disk_total_bytes bigint not null,"
      " disk_free_bytes bigint not null,"
      " gpus text not null,"
      " registered_us bigint not null,"
      " seen_us bigint not null,"
      " seen_lease_us bigint not null,"
      " constraint nodes_name_unique unique (name),"
      " constraint nodes_state_known check (state in ('READY', 'LOST', 'REMOVED')))",

      "create table runs ("
      " id text primary key,"
      " kind text not null,"
      " state text not null,"
      " owner_id text not null,"
      " user_name text not null,"
      " command text not null,"
      " environment text not null,"
      " engine text not null,"
      " config text not null,"
      " config_name text not null,"
      " gpu text not null,"
      " gpu_count bigint not null,"
      " gpu_type text not null,"
      " wanted_node text not null,"
      " queue bigint not null,"
      " sync_final_only bigint not null,"
      " grace_seconds bigint not null,"
      " node_id text references nodes (id),"
      " attempt bigint not null,"
      " stop_requested bigint not null,"
      " stop_grace_seconds bigint not null,"
      " exit_code bigint,"
      " reason text not null,"
      " message text not null,"
      " saved_step bigint,"
      " saved_snapshot bigint,"
      " saved_us bigint,"
      " pending_files bigint not null,"
      " pending_bytes bigint not null,"
      " safe_to_stop bigint not null,"
      " log_seq bigint not null,"
      " logs_removed bigint not null,"
      " created_us bigint not null,"
      " started_us bigint,"
      " ended_us bigint,"
      " constraint runs_kind_known check (kind in ('command', 'train')),"
      " constraint runs_state_known check (state in ('QUEUED', 'PENDING', 'CREATING', 'RUNNING', 'SYNCING', 'COMPLETED',"
      " 'FAILED', 'STOPPED', 'LOST')))",
      "create index runs_owner on runs (owner_id, created_us, id)",
      "create index runs_state on runs (state, created_us, id)",
      "create index runs_node on runs (node_id, state)",
      "create index runs_ended on runs (logs_removed, ended_us)",

      "create table run_mounts ("
      " run_id text not null references runs (id),"
      " position bigint not null,"
      " volume_id text not null,"
      " volume_name text not null,"
      " directory text not null,"
      " is_primary bigint not null,"
      " read_only bigint not null,"
      " shared bigint not null,"
      " workspace bigint not null,"
      " snapshot bigint,"
      " primary key (run_id, position))",
      "create index run_mounts_volume on run_mounts (volume_id, run_id)",

      "create table attempts ("
      " id text primary key,"
      " run_id text not null references runs (id),"
      " number bigint not null,"
      " node_id text not null references nodes (id),"
      " state text not null,"
      " secret_hash text not null,"
      " log_seq bigint not null,"
      " opened_us bigint not null,"
      " started_us bigint,"
      " seen_lease_us bigint not null,"
      " ended_us bigint,"
      " constraint attempts_number_unique unique (run_id, number),"
      " constraint attempts_number_bounded check (number >= 1 and number <= 1000),"
      " constraint attempts_state_known check (state in ('OFFERED', 'CREATING', 'RUNNING', 'SYNCING', 'ENDED',"
      " 'SUPERSEDED', 'LOST')))",
      "create index attempts_node on attempts (node_id, state)",
      "create index attempts_state on attempts (state, seen_lease_us)",

      // What an attempt holds on each mount: a writable one an upload with its lease, a read-only one a pin.
      "create table attempt_grants ("
      " attempt_id text not null references attempts (id),"
      " position bigint not null,"
      " volume_id text not null,"
      " upload_id text,"
      " lease_id text,"
      " pin_id text,"
      " primary key (attempt_id, position))",

      "create table run_logs ("
      " run_id text not null references runs (id),"
      " seq bigint not null,"
      " attempt bigint not null,"
      " component text not null,"
      " at_us bigint not null,"
      " line text not null,"
      " primary key (run_id, seq))",
  };
  return kStatements;
}

}  // namespace cairn::catalog
