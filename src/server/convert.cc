#include "server/convert.h"

#include "server/seen.h"

namespace cairn::server {
namespace {

std::string kind_of(volume::EntryKind kind) {
  switch (kind) {
    case volume::EntryKind::kFile: return "file";
    case volume::EntryKind::kDirectory: return "dir";
    case volume::EntryKind::kSymlink: return "symlink";
  }
  return "";
}

api::Pin pin_of(PinId pin, const volume::SnapshotInfo& snapshot, Time expires_at) {
  api::Pin to;
  to.pin = pin;
  to.snapshot = seen(snapshot.number);
  to.root = snapshot.root;
  to.entries = seen(snapshot.entries);
  to.files = seen(snapshot.files);
  to.bytes = seen(snapshot.bytes);
  to.expires_at = expires_at;
  return to;
}

api::MountGrant mount_grant(const run::GrantedMount& granted, Time now) {
  api::MountGrant to;
  to.volume = granted.mount.volume_name;
  to.volume_id = granted.mount.volume;
  to.directory = granted.mount.directory;
  to.primary = granted.mount.primary;
  to.read_only = granted.mount.read_only;
  to.shared = granted.mount.shared;
  to.size_bytes = seen(granted.size_bytes);
  to.base = pin_of(granted.pin, granted.base, now);
  if (granted.upload) {
    to.upload = to_api(*granted.upload);
    to.base.expires_at = to.upload->expires_at;
  }
  return to;
}

}  // namespace

api::Snapshot to_api(const volume::SnapshotInfo& info) {
  api::Snapshot to;
  to.number = seen(info.number);
  to.root = info.root;
  to.kind = info.kind;
  to.message = info.message;
  to.author = info.author;
  to.created_at = info.created_at;
  to.entries = seen(info.entries);
  to.files = seen(info.files);
  to.bytes = seen(info.bytes);
  to.interim = info.interim;
  if (info.side) to.side = info.side_label;
  to.tag = info.tag;
  to.expires_at = info.expires_at;
  return to;
}

api::Volume to_api(const volume::VolumeInfo& info) {
  api::Volume to;
  to.id = info.id;
  to.name = info.name;
  to.owner = info.created_by;
  to.size_bytes = seen(info.size_bytes);
  to.used_bytes = seen(info.used_bytes);
  to.files = seen(info.files);
  to.entries = seen(info.entries);
  to.status = volume::state_name(info.state);
  if (info.writer) to.writer = info.writer->holder;
  to.history = info.history.to_string();
  to.snapshot = seen(info.head);
  to.created_at = info.created_at;
  to.created_by = info.created_by;
  to.purge_at = info.purge_at;
  to.delete_error = info.delete_error;
  for (const auto& side : info.side_snapshots) to.side_snapshots.push_back(to_api(side));
  if (info.stored_bytes > 0) to.stored_bytes = seen(info.stored_bytes);
  return to;
}

api::Pin to_api(const volume::Pinned& pinned) { return pin_of(pinned.pin, pinned.snapshot, pinned.expires_at); }

api::Entry to_api(const volume::EntryInfo& info) {
  api::Entry to;
  to.path = info.path;
  to.kind = kind_of(info.kind);
  to.mode = info.mode;
  to.mtime_ns = info.mtime_ns;
  to.size_bytes = seen(info.size_bytes);
  to.target = info.symlink_target;
  to.implied = info.implied;
  return to;
}

api::Upload to_api(const volume::OpenUpload& upload) {
  api::Upload to;
  to.upload = upload.id;
  to.volume = upload.volume;
  to.lease = upload.lease.id;
  to.secret = upload.lease.secret;
  to.fence = upload.lease.fence;
  // The base stays pinned as long as the upload is not over.
  to.base = pin_of(upload.pin, upload.base, upload.lease.expires_at);
  to.expires_at = upload.lease.expires_at;
  return to;
}

api::Published to_api(const volume::Publication& publication) {
  api::Published to;
  to.snapshot = seen(publication.snapshot);
  to.entries = seen(publication.entries);
  to.files = seen(publication.files);
  to.bytes = seen(publication.bytes);
  to.root = publication.root;
  if (publication.side) {
    to.side = publication.side_label;
    to.side_reason = publication.side_reason;
  }
  return to;
}

api::Run to_api(const run::RunView& view, Time now) {
  const catalog::RunRow& run = view.run;
  api::Run to;
  to.id = run.id;
  to.kind = run.kind == "train" ? api::RunKind::kTrain : api::RunKind::kCommand;
  to.state = api::state_from_name(run.state).value_or(api::RunState::kLost);
  to.user = run.user_name;
  if (const auto* primary = view.primary()) to.volume = primary->volume_name;
  for (const catalog::RunMountRow& mount : view.mounts) {
    if (mount.workspace) continue;
    api::MountRequest shown;
    shown.volume = mount.volume_name;
    shown.directory = mount.directory;
    shown.snapshot = seen(mount.snapshot.value_or(0));
    shown.read_only = mount.read_only;
    shown.shared = mount.shared;
    shown.primary = mount.primary;
    to.mounts.push_back(std::move(shown));
  }
  to.command = run.command;
  to.config_name = run.config_name;
  to.node = view.node_name;
  to.attempt = seen(run.attempt);
  to.exit_code = run.exit_code;
  to.reason = run.reason;
  to.message = run.message;
  if (run.saved_snapshot && run.saved_at) {
    api::SavedState saved;
    if (run.saved_step) saved.step = seen(*run.saved_step);
    saved.snapshot = seen(*run.saved_snapshot);
    saved.at = *run.saved_at;
    saved.age_seconds = seen((now - *run.saved_at).count() / 1'000'000);
    to.saved = saved;
  }
  to.pending = {seen(run.pending_files), seen(run.pending_bytes)};
  to.safe_to_stop = run.safe_to_stop;
  to.stop_requested = run.stop_requested;
  to.created_at = run.created_at;
  to.started_at = run.started_at;
  to.ended_at = run.ended_at;
  return to;
}

api::Checkpoint to_api(const run::CheckpointView& view) {
  api::Checkpoint to;
  to.step = seen(view.step);
  to.path = view.path;
  to.state = view.complete ? "COMPLETE" : "INCOMPLETE";
  to.files = seen(view.files);
  to.bytes = seen(view.bytes);
  to.snapshot = seen(view.snapshot);
  to.at = view.at;
  return to;
}

api::Node to_api(const run::NodeView& view) {
  api::Node to;
  to.id = view.node.id;
  to.name = view.node.name;
  to.state = view.node.state;
  to.draining = view.node.draining;
  to.version = view.node.version;
  to.cpus = seen(view.node.cpus);
  to.memory_bytes = seen(view.node.memory_bytes);
  to.disk_total_bytes = seen(view.node.disk_total_bytes);
  to.disk_free_bytes = seen(view.node.disk_free_bytes);
  for (const run::GpuWish& gpu : run::parse_gpus(view.node.gpus)) to.gpus.push_back({gpu.type, seen(gpu.count)});
  to.runs = seen(view.runs);
  to.registered_at = view.node.registered_at;
  to.seen_at = view.node.seen_at;
  return to;
}

api::AttemptStart to_api(const run::StartedAttempt& started) {
  const catalog::RunRow& run = started.view.run;
  api::AttemptStart to;
  to.run = run.id;
  to.attempt = started.attempt.id;
  to.number = seen(started.attempt.number);
  to.kind = run.kind == "train" ? api::RunKind::kTrain : api::RunKind::kCommand;
  to.command = started.command;
  to.config = run.config;
  to.config_name = run.config_name;
  to.output_directory = run::output_directory(run.id);
  to.environment = run.environment;
  to.gpu = run.gpu;
  for (const run::GrantedMount& granted : started.mounts) {
    api::MountGrant mount = mount_grant(granted, started.attempt.opened_at);
    if (granted.mount.workspace) {
      to.workspace = std::move(mount);
    } else {
      to.mounts.push_back(std::move(mount));
    }
  }
  to.sync_final_only = run.sync_final_only;
  to.grace_seconds = seen(run.grace_seconds);
  return to;
}

}  // namespace cairn::server
