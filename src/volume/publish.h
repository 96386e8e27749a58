// Publication: turns a changeset into a new head, whole or not at all. Only this code writes trees.
//
// A publication is an operation row keyed by the request id: the same id attaches to it and gets its result, another
// body under the same id is request_id_reused, and any server may go on with one whose server died, because every step
// before the head swap is repeatable and the swap is one conditional transaction. One publication per volume at a time.
//
// Order: pack rows and packs (by the client) → changeset → node packs (row before object) → snapshot record → the swap,
// which checks lease, head, size and upload, touches every pack the new root needs beyond its base, and fails with
// chunks_gone when one of them is on its way out (F1). docs/ORDERING.md has the argument and the tests.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "volume/context.h"
#include "volume/volumes.h"

namespace cairn::volume {

struct PublishRequest {
  RequestId request;
  UploadId upload;
  std::string secret;
  PackId changeset;
  std::string kind = "put";  // put, checkpoint, final, save, log
  std::string message;
  // Published while the writer goes on: only the newest such snapshot of an upload stays. Runs and sessions only.
  bool interim = false;
  // What the changeset was computed against; the upload's base or last publication when absent. Matters for side
  // snapshots: a publication to the head is merged into the head.
  std::optional<int64_t> base_snapshot;
};

struct Publication {
  int64_t snapshot = 0;  // the head as it was when the changeset changes nothing
  std::string root;      // hex digest
  int64_t entries = 0;
  int64_t files = 0;
  int64_t bytes = 0;
  bool side = false;        // it went aside instead of becoming the head
  std::string side_label;   // "recovered/<holder>"
  std::string side_reason;  // why: "lease_lost" or "contents_exceed_size"
};

struct RemoveRequest {
  RequestId request;
  VolumeId volume;
  Actor actor;
  std::vector<std::string> paths;  // raw bytes; a folder goes with all below it. At most 10,000.
  std::string message;
};

class Publisher {
 public:
  explicit Publisher(Context& context);
  ~Publisher();

  // Uploads must not write below runs/ (runs and sessions may); contents_exceed_size names the numbers. A run's or
  // session's publication whose lease is lost or whose contents exceed the size becomes a side snapshot instead. Waits
  // while another publication of the volume is under way, for settings.publish_wait: busy. busy, outcome_unknown and
  // unavailable leave the operation open: ask again with the same request id.
  Result<Publication> publish(const PublishRequest& request, Deadline deadline, const AlsoInTx<Publication>& also = {});

  // `rm` at the server: takes the lease as holder kind server for the moment, publishes the deletions. path_not_found
  // names the first path that is not there.
  Result<Publication> remove(const RemoveRequest& request, Deadline deadline, const AlsoInTx<Publication>& also = {});

  // Goes on with publications whose server died (their claim is past its time). Answers how many were finished.
  Result<int64_t> resume_abandoned(Deadline deadline);
  // At the start of the only server of a catalog (SQLite): claims of the process before it are void at once.
  Status drop_claims();

  // Tests and the simulator only: called before each named step; an error stops the publication there as a crash would,
  // leaving the operation open. Switching the touch off is the simulator's canary.
  void set_step_hook(std::function<Status(std::string_view step)> hook);
  void disable_touch_for_canary();

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn::volume
