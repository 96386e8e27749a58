// Volumes: named storage of one owner (a user for now), with a size, a history policy, a store (the domain of
// deduplication and garbage collection) and a head snapshot. Deleting moves a volume to the trash: its name is free at
// once, its snapshots are frozen, and it is purged after a week or at once.
//
// States: created → trashed → deleting → gone; deleting ⇄ delete_failed; trashed → created (undelete). Every transition
// is one conditional statement.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "volume/context.h"
#include "volume/history.h"

namespace cairn::catalog {
struct VolumeRow;
}

namespace cairn::volume {

struct Instant;

enum class VolumeState { kCreated, kTrashed, kDeleting, kDeleteFailed };
// "CREATED", "TRASHED", "DELETING", "DELETE FAILED"
std::string_view state_name(VolumeState state);

// Workspaces are hidden volumes that carry the working directory of `cairn run`; they are purged when the run ends, or after
// a day without one.
enum class VolumeKind { kUser, kWorkspace };

struct LeaseSummary {
  LeaseId lease;
  std::string kind;    // upload, run, session, server
  std::string holder;  // what a person recognises: "put from laptop:/data", "run 3f2a…"
  std::string user_name;
  uint64_t fence = 0;
  Time since;
  Time seen;
  Time expires_at;
};

struct SnapshotInfo {
  int64_t number = 0;
  std::string root;  // hex digest of the tree
  std::string kind;  // create, put, checkpoint, final, save, log, remove, restore
  std::string message;
  std::string author;
  int64_t entries = 0;
  int64_t files = 0;
  int64_t bytes = 0;
  int64_t base = 0;
  Time created_at;
  bool interim = false;
  bool side = false;
  std::string side_label;  // "recovered/<holder>"
  std::string tag;
  std::optional<Time> expires_at;  // of a side snapshot
};

struct VolumeInfo {
  VolumeId id;
  StoreId store;
  UserId owner;
  std::string name;
  VolumeKind kind = VolumeKind::kUser;
  VolumeState state = VolumeState::kCreated;
  int64_t size_bytes = 0;
  int64_t used_bytes = 0;  // live contents of the head
  int64_t entries = 0;
  int64_t files = 0;
  int64_t head = 0;  // snapshot number; 0 = empty, nothing published yet
  HistoryPolicy history;
  std::string created_by;
  Time created_at;
  std::optional<Time> trashed_at;
  std::optional<Time> purge_at;
  std::string delete_error;
  std::optional<LeaseSummary> writer;
  std::vector<SnapshotInfo> side_snapshots;  // the newest 1,000; filled by info() only
  int64_t stored_bytes = 0;                  // pack bytes of its store; filled by info() only
};

struct DeletePreview {
  int64_t files = 0;
  int64_t bytes = 0;
  int64_t checkpoints = 0;                    // runs/<run>/checkpoints/step_<N> folders, counted up to 10,000
  std::vector<std::string> checkpoint_paths;  // the first 100, raw bytes
};

// Why a volume cannot be deleted now, and the command that ends it.
struct Use {
  std::string what;  // "run 3f2a (RUNNING)"
  std::string hint;  // "cairn train stop 3f2a"
};
// Modules above (runs, sessions) say what they use; called inside the transaction that moves a volume to the trash.
using UsageProbe = std::function<Result<std::vector<Use>>(catalog::Tx&, VolumeId)>;

class Volumes {
 public:
  explicit Volumes(Context& context) : context_(context) {}

  // Not thread-safe: call before serving.
  void add_usage_probe(UsageProbe probe) { probes_.push_back(std::move(probe)); }

  // Idempotent: the same name answers the existing volume; another size is volume_exists_with_other_size with a hint to
  // expand. Without a size: the default for a new volume, whatever it is for an existing one. `created` (may be null)
  // is set to whether the volume is new. The store's header and epoch objects are durable before any row names them.
  Result<VolumeInfo> create(const Actor& actor, std::string_view name, std::optional<int64_t> size_bytes,
                            std::optional<HistoryPolicy> history = {}, bool* created = nullptr,
                            const AlsoInTx<VolumeInfo>& also = {});
  // A hidden volume "~<random>", never listed; found by that name like any other.
  Result<VolumeInfo> create_workspace(const Actor& actor, int64_t size_bytes, const AlsoInTx<VolumeInfo>& also = {});

  // volume_not_found unless there is a CREATED volume of that name.
  Result<VolumeInfo> find(UserId owner, std::string_view name);
  Result<VolumeInfo> find(VolumeId id);  // in any state
  // The newest volume in the trash by that name.
  Result<VolumeInfo> find_trashed(UserId owner, std::string_view name);
  // find() plus side snapshots and stored bytes.
  Result<VolumeInfo> info(UserId owner, std::string_view name);
  // Sorted by name, after `after_name`, trashed and deleting ones included. `limit` ≤ 1,000.
  Result<std::vector<VolumeInfo>> list(UserId owner, std::string_view after_name = {}, int64_t limit = 1'000);

  // only_grow, size_over_maximum; the same size is fine.
  Result<VolumeInfo> expand(UserId owner, std::string_view name, int64_t size_bytes,
                            const AlsoInTx<VolumeInfo>& also = {});
  Result<VolumeInfo> set_history(UserId owner, std::string_view name, HistoryPolicy history,
                                 const AlsoInTx<VolumeInfo>& also = {});

  Result<DeletePreview> delete_preview(UserId owner, std::string_view name);
  // To the trash, or with `purge` straight to removal. volume_in_use says by what and how to end it. A lease past its
  // time does not protect a volume.
  Result<VolumeInfo> remove(UserId owner, std::string_view name, bool purge, const AlsoInTx<VolumeInfo>& also = {});
  // Removal at once by id (workspaces at the end of their run). Absent is ok.
  Status purge(VolumeId id);
  Result<VolumeInfo> undelete(UserId owner, std::string_view name, std::string_view as = {},
                              const AlsoInTx<VolumeInfo>& also = {});

  // Background: moves trashed volumes past their time and workspaces that no run uses to DELETING, removes the data of DELETING and DELETE FAILED ones
  // (rows first end the roots, then objects go, then rows) and finishes stores under removal. Answers how many volumes
  // are gone.
  Result<int64_t> purge_due();

  // Newest first, before `before` (0 = from the newest). Interim, side and the empty snapshot 0 are included on
  // request.
  Result<std::vector<SnapshotInfo>> snapshots(VolumeId id, int64_t before, int64_t limit, bool all = false);
  Result<SnapshotInfo> snapshot(VolumeId id, int64_t number);
  // A label keeps a snapshot until it is removed again ("" removes it).
  Status tag(VolumeId id, int64_t number, std::string_view label, const AlsoInTx<int64_t>& also = {});
  // At once, or for retention to remove once its readers are done; volume_state_conflict when it is tagged.
  Status drop_side_snapshot(VolumeId id, int64_t number, const AlsoInTx<int64_t>& also = {});

 private:
  // Who keeps it from being deleted.
  Result<std::vector<Use>> uses(catalog::Tx& tx, const catalog::VolumeRow& volume, const Instant& at);
  Status drop_unused_workspaces();

  Context& context_;
  std::vector<UsageProbe> probes_;
};

}  // namespace cairn::volume
