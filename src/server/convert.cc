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

}  // namespace cairn::server
