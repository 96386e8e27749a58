// A server, its catalog and its object store in memory, behind transfer::Remote: packs are parsed and checked, changesets
// decoded and merged into a sorted map, listings encoded, so that a transfer test uses the real formats. It can fail, stop
// answering (as a killed process sees it) and lie.
//
// Thread-safe. The hooks are set before use.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "store/pack.h"
#include "store/paths.h"
#include "transfer/remote.h"

namespace cairn::testing {

class FakeRemote final : public transfer::Remote {
 public:
  using Tree = std::map<std::string, store::Entry, store::PathLess>;  // entries with all their chunks

  // Called before every operation by name ("open_upload", "put_object", …): an error is what the caller gets instead.
  std::function<Status(const std::string& operation)> before;
  // Called after an operation has taken effect: an error is what the caller gets although it happened.
  std::function<Status(const std::string& operation)> after;
  // Changes bytes on their way out of get_range.
  std::function<void(const PackId& pack, uint64_t offset, std::span<uint8_t> bytes)> corrupt;
  // Replaces listing pages.
  std::function<std::vector<uint8_t>(std::vector<uint8_t> page)> rewrite_listing;
  uint64_t listing_bytes = 64 << 10;
  // Data packs are checked and counted, but only their indexes are kept: for measuring the memory of a transfer.
  bool discard_packs = false;

  // What a test reads and prepares.
  Tree head();
  uint64_t snapshot();
  void set_head(Tree tree);
  Result<std::vector<uint8_t>> contents(const std::string& path);
  uint64_t bytes_put();
  uint64_t packs_put();
  uint64_t publications();
  bool lease_held();
  // Somebody else takes the lease.
  void take_lease();
  // Lets the next publish fail with chunks_gone once.
  void lose_chunks_once() { lose_chunks_ = true; }
  // Every pin dies, as after a day without a sign of life.
  void lose_pins();
  uint64_t operations();

  std::string volume_name() const override { return "fake"; }
  std::string scope() const override { return "fake"; }
  Result<transfer::UploadGrant> open_upload(const std::string& source, const std::string& secret, Deadline deadline) override;
  Status heartbeat(const transfer::UploadGrant& grant, Deadline deadline) override;
  Result<std::vector<transfer::PackSlot>> exchange_packs(const transfer::UploadGrant& grant,
                                                         std::span<const PackId> registered,
                                                         std::span<const transfer::PackPromise> promises,
                                                         Deadline deadline) override;
  Result<std::vector<transfer::PackUrl>> resumable_packs(const transfer::UploadGrant& grant, Deadline deadline) override;
  Status put_object(const transfer::PackSlot& slot, std::span<const uint8_t> bytes, Deadline deadline) override;
  Result<transfer::Published> publish(const transfer::UploadGrant& grant, const transfer::PublishRequest& request,
                                      Deadline deadline) override;
  Status close_upload(const transfer::UploadGrant& grant, Deadline deadline) override;
  Result<transfer::PinGrant> pin(std::optional<uint64_t> snapshot, Deadline deadline) override;
  Status unpin(const PinId& pin, Deadline deadline) override;
  Result<std::optional<transfer::RemoteStat>> stat(const PinId& pin, const std::string& path, Deadline deadline) override;
  Result<transfer::ListingPage> listing(const PinId& pin, const std::string& path, const transfer::ListingCursor& from,
                                        uint64_t max_bytes, Deadline deadline) override;
  Result<std::vector<transfer::PackUrl>> get_urls(const PinId& pin, std::span<const PackId> packs, Deadline deadline) override;
  Status get_range(const std::string& url, uint64_t offset, std::span<uint8_t> out, Deadline deadline) override;

 private:
  struct Pack {
    transfer::PackPromise promise;
    std::vector<uint8_t> bytes;
    bool stored = false;
    std::optional<store::PackIndex> index;  // once registered
  };
  Status enter(const char* operation, const Deadline& deadline);
  Status leave(const char* operation);
  Status check_lease(const transfer::UploadGrant& grant) const;
  Status apply(const Pack& changeset, Tree& tree) const;
  transfer::PinGrant pin_locked(size_t number);
  Result<size_t> pinned_locked(const PinId& pin) const;

  std::mutex mutex_;
  std::map<PackId, Pack> packs_;
  std::vector<Tree> snapshots_{Tree{}};
  std::map<PinId, size_t> pins_;
  std::optional<transfer::UploadGrant> upload_;
  std::string source_;
  uint64_t refused_ = 0;
  uint64_t fences_ = 0;
  uint64_t bytes_put_ = 0;
  uint64_t packs_put_ = 0;
  uint64_t operations_ = 0;
  bool lose_chunks_ = false;
};

}  // namespace cairn::testing
