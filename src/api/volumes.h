// Wire types of volumes, snapshots, pins and reading.
//
// Paths are raw bytes in `std::string`, never starting or ending with '/'; the empty path is the volume's top. In JSON each
// path field is written twice: `<name>_hex`, which counts, and `<name>`, which is for people and may be escaped.
// A snapshot is named by its number; 0 in a request means the newest published one (head).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"

namespace cairn::api {

struct CreateVolume {
  std::string name;
  std::optional<uint64_t> size_bytes;  // the server's default when absent
  std::optional<std::string> history;  // "7d", "20", "off"
};

struct Snapshot {
  uint64_t number = 0;
  std::string root;     // digest of the tree
  std::string kind;     // create, put, checkpoint, final, save, log, remove, restore
  std::string message;
  std::string author;
  Time created_at;
  uint64_t entries = 0;
  uint64_t files = 0;
  uint64_t bytes = 0;
  bool interim = false;
  std::string side;     // "recovered/<holder>" of a side snapshot, else empty
  std::string tag;
  std::optional<Time> expires_at;  // of a side snapshot
};

struct SnapshotsQuery {
  uint64_t before = 0;   // number; 0: from the newest
  uint64_t limit = 100;  // at most 1,000
  bool all = false;      // interim and side ones too
};

// Newest first.
struct SnapshotList {
  std::vector<Snapshot> snapshots;
};

struct TagSnapshot {
  std::string label;  // empty: remove the tag
};

struct SetHistory {
  std::string history;  // "7d", "20", "off"
};

struct Volume {
  VolumeId id;
  std::string name;
  std::string owner;
  uint64_t size_bytes = 0;
  uint64_t used_bytes = 0;  // live contents of the head
  uint64_t files = 0;
  uint64_t entries = 0;
  std::string status;       // CREATED, TRASHED, DELETING, DELETE FAILED
  std::string writer;       // holder of the writer lease; empty: none
  std::string history;
  uint64_t snapshot = 0;    // head's number; 0: nothing published yet
  Time created_at;
  std::string created_by;
  std::optional<Time> purge_at;  // of a volume in the trash
  std::string delete_error;      // of DELETE FAILED
  // Only when one volume was asked for:
  std::vector<Snapshot> side_snapshots;
  std::optional<uint64_t> stored_bytes;  // in packs, history included
};

struct VolumeList {
  std::vector<Volume> volumes;
};

struct ExpandVolume {
  uint64_t size_bytes = 0;
};

struct UndeleteVolume {
  std::string as;  // new name; empty: the old one
};

// What `delete` shows before it asks.
struct DeletePreview {
  uint64_t files = 0;
  uint64_t bytes = 0;
  uint64_t checkpoints = 0;
  std::vector<std::string> checkpoint_paths;  // the first 100
};

// A hidden volume for the working directory of one run; deleted when that run ends. Its `name` stands for it in every route
// that takes a volume's name; it is never listed.
struct CreateWorkspace {
  uint64_t size_bytes = 0;
};

struct CreatePin {
  uint64_t snapshot = 0;
};

struct Pin {
  PinId pin;
  uint64_t snapshot = 0;
  std::string root;  // digest of the tree, 64 hex digits: equal contents have equal digests
  uint64_t entries = 0;
  uint64_t files = 0;
  uint64_t bytes = 0;
  Time expires_at;
};

// Where a listing goes on: after `path`, or, for a file whose chunks did not fit the page, after its first `chunks` chunks.
struct ListingCursor {
  std::string path;
  uint64_t chunks = 0;
};

struct ListingQuery {
  PinId pin;
  std::string path;                    // what is listed: this entry and everything below it
  std::optional<ListingCursor> after;
  uint64_t max_bytes = 4 * 1024 * 1024;
};

struct ListingPage {
  std::vector<uint8_t> changeset;  // docs/formats/changeset.md
  std::optional<ListingCursor> next;
};

struct EntriesQuery {
  PinId pin;              // or, without a pin,
  uint64_t snapshot = 0;  // a snapshot's number
  std::string path;
  std::string after;      // path of the last entry of the page before
  uint64_t limit = 1000;
};

struct Entry {
  std::string path;
  std::string kind;  // file, dir, symlink
  uint64_t mode = 0;
  int64_t mtime_ns = 0;
  uint64_t size_bytes = 0;  // of a file
  std::string target;       // of a symlink
  bool implied = false;     // a folder that exists only because something lies below it
};

// Names of one level, in the order of the tree.
struct EntryPage {
  uint64_t snapshot = 0;
  std::vector<Entry> entries;
  std::optional<std::string> next;  // `after` of the next page
};

struct PathQuery {
  PinId pin;              // or, without a pin,
  uint64_t snapshot = 0;  // a snapshot's number
  std::string path;
};

struct Usage {
  uint64_t snapshot = 0;
  std::string path;
  uint64_t entries = 0;
  uint64_t files = 0;
  uint64_t bytes = 0;
};

struct RequestUrls {
  PinId pin;
  std::vector<PackId> packs;  // at most kPacksPerRequestMax
};

struct PackUrl {
  PackId pack;
  std::string url;  // absolute, or beginning with '/' below the server's own URL
  uint64_t size_bytes = 0;
};

struct UrlGrant {
  std::vector<PackUrl> urls;
  Time expires_at;
};

struct RemovePaths {
  std::vector<std::string> paths;  // each with everything below it; at most kPathsPerRequestMax
  std::string message;
};

inline constexpr uint64_t kPacksPerRequestMax = 256;
inline constexpr uint64_t kEntriesPerPageMax = 10'000;
inline constexpr uint64_t kPathsPerRequestMax = 1'000;
inline constexpr uint64_t kListingBytesMax = 16 * 1024 * 1024;

}  // namespace cairn::api
