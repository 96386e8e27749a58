#include "api/json_fields.h"

namespace cairn::api {

template <class V>
void fields(V& v, CreateVolume& b) {
  v.field("name", b.name);
  v.option("size_bytes", b.size_bytes);
  v.option("history", b.history);
}

template <class V>
void fields(V& v, Snapshot& b) {
  v.field("number", b.number);
  v.option("root", b.root);
  v.field("kind", b.kind);
  v.option("message", b.message);
  v.option("author", b.author);
  v.field("created_at", b.created_at);
  v.field("entries", b.entries);
  v.field("files", b.files);
  v.field("bytes", b.bytes);
  v.option("interim", b.interim);
  v.option("side", b.side);
  v.option("tag", b.tag);
  v.option("expires_at", b.expires_at);
}

template <class V>
void fields(V& v, SnapshotList& b) { v.field("snapshots", b.snapshots); }

template <class V>
void fields(V& v, TagSnapshot& b) { v.field("label", b.label, 128); }

template <class V>
void fields(V& v, SetHistory& b) { v.field("history", b.history, 32); }

template <class V>
void fields(V& v, Volume& b) {
  v.field("id", b.id);
  v.field("name", b.name);
  v.option("owner", b.owner);
  v.field("size_bytes", b.size_bytes);
  v.field("used_bytes", b.used_bytes);
  v.option("files", b.files);
  v.option("entries", b.entries);
  v.field("status", b.status);
  v.option("writer", b.writer);
  v.option("history", b.history);
  v.option("snapshot", b.snapshot);
  v.field("created_at", b.created_at);
  v.option("created_by", b.created_by);
  v.option("purge_at", b.purge_at);
  v.option("delete_error", b.delete_error);
  v.option("side_snapshots", b.side_snapshots);
  v.option("stored_bytes", b.stored_bytes);
}

template <class V>
void fields(V& v, VolumeList& b) { v.field("volumes", b.volumes); }

template <class V>
void fields(V& v, ExpandVolume& b) { v.field("size_bytes", b.size_bytes); }

template <class V>
void fields(V& v, UndeleteVolume& b) { v.option("as", b.as); }

template <class V>
void fields(V& v, DeletePreview& b) {
  v.field("files", b.files);
  v.field("bytes", b.bytes);
  v.field("checkpoints", b.checkpoints);
  v.paths("checkpoint_paths", b.checkpoint_paths);
}

template <class V>
void fields(V& v, CreateWorkspace& b) { v.field("size_bytes", b.size_bytes); }

template <class V>
void fields(V& v, CreatePin& b) { v.option("snapshot", b.snapshot); }

template <class V>
void fields(V& v, Entry& b) {
  v.path("path", b.path);
  v.field("kind", b.kind);
  v.option("mode", b.mode);
  v.option("mtime_ns", b.mtime_ns);
  v.option("size_bytes", b.size_bytes);
  v.path("target", b.target);
  v.option("implied", b.implied);
}

template <class V>
void fields(V& v, EntryPage& b) {
  v.option("snapshot", b.snapshot);
  v.field("entries", b.entries);
  v.option_path("next", b.next);
}

template <class V>
void fields(V& v, Usage& b) {
  v.field("snapshot", b.snapshot);
  v.path("path", b.path);
  v.field("entries", b.entries);
  v.field("files", b.files);
  v.field("bytes", b.bytes);
}

template <class V>
void fields(V& v, RequestUrls& b) {
  v.field("pin", b.pin);
  v.field("packs", b.packs, kPacksPerRequestMax);
}

template <class V>
void fields(V& v, PackUrl& b) {
  v.field("pack", b.pack);
  v.field("url", b.url);
  v.field("size_bytes", b.size_bytes);
}

template <class V>
void fields(V& v, UrlGrant& b) {
  v.field("urls", b.urls);
  v.field("expires_at", b.expires_at);
}

template <class V>
void fields(V& v, RemovePaths& b) {
  v.paths("paths", b.paths, kPathsPerRequestMax);
  v.option("message", b.message);
}

template <class V>
void fields(V& v, OpenUpload& b) {
  v.field("source", b.source);
  v.option("takeover_secret", b.takeover_secret, 256);
  v.option("shared", b.shared);
  v.field("secret", b.secret, 256);
}

template <class V>
void fields(V& v, Heartbeat& b) { v.field("secret", b.secret, 256); }

template <class V>
void fields(V& v, HeartbeatAnswer& b) { v.field("expires_at", b.expires_at); }

template <>
struct EnumNames<PackKind> {
  static constexpr std::string_view kNames[] = {"data", "changeset"};
};

template <class V>
void fields(V& v, PackPromise& b) {
  v.field("size_bytes", b.size_bytes);
  v.field("crc32c", b.crc32c);
  v.option("kind", b.kind);
}

template <class V>
void fields(V& v, RequestPacks& b) {
  v.field("secret", b.secret, 256);
  v.option("register", b.to_register, kPacksPerRequestMax);
  v.option("promise", b.promise, kPromisesPerRequestMax);
}

template <class V>
void fields(V& v, PackGrant& b) {
  v.field("registered", b.registered);
  v.field("promised", b.promised);
  v.field("expires_at", b.expires_at);
}

template <class V>
void fields(V& v, RequestResumable& b) {
  v.field("secret", b.secret, 256);
  v.option("after", b.after);
  v.option("limit", b.limit);
}

template <class V>
void fields(V& v, ResumablePack& b) {
  v.field("pack", b.pack);
  v.field("url", b.url);
  v.field("size_bytes", b.size_bytes);
  v.field("seal", b.seal);
}

template <class V>
void fields(V& v, ResumablePacks& b) {
  v.field("packs", b.packs);
  v.option("more", b.more);
  v.field("expires_at", b.expires_at);
}

template <>
struct EnumNames<PublishKind> {
  static constexpr std::string_view kNames[] = {"put", "checkpoint", "final", "save", "log"};
};

template <class V>
void fields(V& v, Publish& b) {
  v.field("secret", b.secret, 256);
  v.field("changeset", b.changeset);
  v.option("kind", b.kind);
  v.option("message", b.message);
  v.option("interim", b.interim);
}

template <class V>
void fields(V& v, Published& b) {
  v.field("snapshot", b.snapshot);
  v.option("root", b.root);
  v.field("entries", b.entries);
  v.field("files", b.files);
  v.field("bytes", b.bytes);
  v.option("side", b.side);
  v.option("side_reason", b.side_reason);
}

template <class V>
void fields(V& v, CloseUpload& b) { v.field("secret", b.secret, 256); }

std::string_view kind_name(PublishKind kind) { return enum_name(kind); }

CAIRN_API_TYPE(CreateVolume)
CAIRN_API_TYPE(Snapshot)
CAIRN_API_TYPE(SnapshotList)
CAIRN_API_TYPE(TagSnapshot)
CAIRN_API_TYPE(SetHistory)
CAIRN_API_TYPE(Volume)
CAIRN_API_TYPE(VolumeList)
CAIRN_API_TYPE(ExpandVolume)
CAIRN_API_TYPE(UndeleteVolume)
CAIRN_API_TYPE(DeletePreview)
CAIRN_API_TYPE(CreateWorkspace)
CAIRN_API_TYPE(CreatePin)
CAIRN_API_TYPE(Pin)
CAIRN_API_TYPE(Entry)
CAIRN_API_TYPE(EntryPage)
CAIRN_API_TYPE(Usage)
CAIRN_API_TYPE(RequestUrls)
CAIRN_API_TYPE(UrlGrant)
CAIRN_API_TYPE(RemovePaths)
CAIRN_API_TYPE(OpenUpload)
CAIRN_API_TYPE(Upload)
CAIRN_API_TYPE(Heartbeat)
CAIRN_API_TYPE(HeartbeatAnswer)
CAIRN_API_TYPE(RequestPacks)
CAIRN_API_TYPE(PackGrant)
CAIRN_API_TYPE(RequestResumable)
CAIRN_API_TYPE(ResumablePacks)
CAIRN_API_TYPE(Publish)
CAIRN_API_TYPE(Published)
CAIRN_API_TYPE(CloseUpload)

}  // namespace cairn::api
