// The parts of a publication between reading its changeset and swapping the head. Private to volume/; publish.cc drives
// them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "catalog/packs.h"
#include "catalog/publish_ops.h"
#include "catalog/snapshots.h"
#include "catalog/volumes.h"
#include "object/object_store.h"
#include "store/changeset.h"
#include "store/tree_merge.h"
#include "volume/store_access.h"
#include "volume/writer.h"

namespace cairn::volume {

using StepHook = std::function<Status(std::string_view)>;

// Reads an object from front to back.
class ObjectSource final : public store::ByteSource {
 public:
  explicit ObjectSource(std::unique_ptr<object::ObjectReader> reader) : reader_(std::move(reader)) {}
  Result<size_t> read(std::span<uint8_t> out) override;

 private:
  std::unique_ptr<object::ObjectReader> reader_;
  uint64_t offset_ = 0;
};

// Called between any two pieces of a publication's work: keeps its claim (by time, so it is cheap to call), and its
// error ends the work.
using KeepClaim = std::function<Status()>;

// Passes a changeset through and refuses what the writer may not do (S13).
class CheckedChanges final : public store::ChangeSource {
 public:
  CheckedChanges(store::ChangeSource& changes, bool may_write_runs, const KeepClaim& keep_claim)
      : changes_(changes), may_write_runs_(may_write_runs), keep_claim_(keep_claim) {}
  Result<bool> next(store::Change& change) override;
  Result<std::span<const store::ChunkRef>> next_chunks() override;

 private:
  store::ChangeSource& changes_;
  bool may_write_runs_;
  const KeepClaim& keep_claim_;
};

// Every place must be a frame of a sealed pack that this upload owns or this volume's roots named (F8).
class PlacesOfWriter final : public store::PlaceChecker {
 public:
  PlacesOfWriter(Context& context, PackIndexes& indexes, const Writer& writer, const KeepClaim& keep_claim,
                 Deadline deadline)
      : context_(context),
        indexes_(indexes),
        writer_(writer),
        keep_claim_(keep_claim),
        deadline_(std::move(deadline)) {}
  // Packs that are gone are collected and pass: the merge's result is not used then.
  Status check(const store::ChunkRef& chunk) override;
  // chunks_gone with the list, if there are any.
  Status verdict() const;

 private:
  // The row of a pack that this writer may name; nothing otherwise.
  Result<std::optional<catalog::PackRow>> nameable(PackId pack);

  Context& context_;
  PackIndexes& indexes_;
  const Writer& writer_;
  const KeepClaim& keep_claim_;
  Deadline deadline_;
  // Changes come by path, so neighbours often go back and forth between a few packs. What is remembered may become
  // stale: the swap touches every pack it names, or fails.
  std::unordered_map<PackId, std::optional<catalog::PackRow>> rows_;
  PackId last_;
  std::shared_ptr<const store::PackIndex> last_index_;  // null for a pack that is gone
  std::set<PackId> gone_;
};

Error chunks_gone(const std::vector<PackId>& packs);

// What a publication found when it began, and what it is about to make of it.
struct Attempt {
  catalog::PublishOpRow op;
  std::string claim;
  Duration claim_renewed{0};  // monotonic
  std::optional<Writer> writer;
  catalog::VolumeRow volume;
  std::string head_digest;
  // What the changeset is merged into: the head, or what this writer set aside before, or what it started from.
  catalog::SnapshotRow base;
  store::RootRef base_root;
  int64_t epoch = 0;
  bool side = false;  // becomes a side snapshot
  std::string side_reason;
  store::MergeResult merged;
  std::set<PackId> own_packs;  // nodes and record written by this attempt
  std::optional<PackId> record_pack;
  int64_t number = 0;
  StepHook step;  // never empty, as is the next
  KeepClaim keep_claim;
  bool crashed = false;  // the hook stopped it
  bool again = false;    // the error only says that something moved meanwhile
};

// Whether nobody has finished the operation.
Result<bool> is_open(catalog::Tx& tx, RequestId request);
Error finished_elsewhere();

// The error of an attempt that only met a change: all is done again from the new state.
Error moved(Attempt& attempt, std::string what);

// Writes node packs of `attempt`: row, object, registration.
class NodePacks final : public store::NodePackAllocator {
 public:
  NodePacks(Context& context, Attempt& attempt, Deadline deadline)
      : context_(context), attempt_(attempt), deadline_(std::move(deadline)) {}
  Result<PackId> next() override;
  Status store(const PackId& id, const store::BuiltPack& pack) override;

 private:
  Context& context_;
  Attempt& attempt_;
  Deadline deadline_;
};

// Writes the snapshot record (row, object, registration) of `attempt`, which gets its pack id.
Status write_snapshot_record(Context& context, Attempt& attempt, const Deadline& deadline);

// Writes a small object of the server's own making whose row is `row`. An object that is there already was put by us:
// the id is ours alone.
Status put_own_object(Context& context, const catalog::PackRow& row, codec::ByteView bytes, const Deadline& deadline);

}  // namespace cairn::volume
