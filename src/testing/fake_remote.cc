#include "testing/fake_remote.h"

#include <algorithm>
#include <cstring>

#include "codec/crc32c.h"
#include "store/changeset.h"

namespace cairn::testing {

using transfer::PinGrant;
using transfer::UploadGrant;

Status FakeRemote::enter(const char* operation, const Deadline& deadline) {
  CAIRN_CHECK_OK(deadline.check());
  {
    std::lock_guard lock(mutex_);
    ++operations_;
  }
  return before ? before(operation) : ok();
}

Status FakeRemote::leave(const char* operation) { return after ? after(operation) : ok(); }

FakeRemote::Tree FakeRemote::head() {
  std::lock_guard lock(mutex_);
  return snapshots_.back();
}
uint64_t FakeRemote::snapshot() {
  std::lock_guard lock(mutex_);
  return snapshots_.size() - 1;
}
void FakeRemote::set_head(Tree tree) {
  std::lock_guard lock(mutex_);
  snapshots_.push_back(std::move(tree));
}
uint64_t FakeRemote::bytes_put() {
  std::lock_guard lock(mutex_);
  return bytes_put_;
}
uint64_t FakeRemote::packs_put() {
  std::lock_guard lock(mutex_);
  return packs_put_;
}
uint64_t FakeRemote::publications() { return snapshot(); }
bool FakeRemote::lease_held() {
  std::lock_guard lock(mutex_);
  return upload_.has_value();
}
uint64_t FakeRemote::operations() {
  std::lock_guard lock(mutex_);
  return operations_;
}
void FakeRemote::take_lease() {
  std::lock_guard lock(mutex_);
  upload_ = UploadGrant{};
  upload_->secret = "somebody else's";
  source_ = "elsewhere";
}

Result<std::vector<uint8_t>> FakeRemote::contents(const std::string& path) {
  std::lock_guard lock(mutex_);
  auto found = snapshots_.back().find(path);
  if (found == snapshots_.back().end()) return Error(Code::kPathNotFound, path);
  std::vector<uint8_t> all;
  store::FrameDecoder decoder;
  for (const store::ChunkRef& chunk : found->second.chunks) {
    const Pack& pack = packs_.at(chunk.place.pack);
    codec::ByteView frame(pack.bytes.data() + chunk.place.offset, store::kFrameHeaderBytes + chunk.place.stored_len);
    CAIRN_TRY(codec::Bytes raw, decoder.decode(frame, chunk));
    all.insert(all.end(), raw.begin(), raw.end());
  }
  return all;
}

PinGrant FakeRemote::pin_locked(size_t number) {
  PinGrant grant;
  grant.pin = PinId::random(system_random());
  grant.snapshot = number;
  codec::Sha256 root;
  for (const auto& [path, entry] : snapshots_[number]) {
    ++grant.entries;
    grant.files += entry.kind == store::EntryKind::kFile ? 1 : 0;
    grant.bytes += entry.size;
    root.update(path).update(entry.target).update(std::to_string(entry.mode) + "/" + std::to_string(entry.mtime_ns) + "/");
    for (const store::ChunkRef& chunk : entry.chunks) root.update(chunk.hash.view());
  }
  grant.root = root.finish().hex();
  pins_[grant.pin] = number;
  return grant;
}

Status FakeRemote::check_lease(const UploadGrant& grant) const {
  if (upload_ && upload_->secret == grant.secret) return ok();
  return Error(Code::kLeaseLost, "somebody else writes now");
}

Result<UploadGrant> FakeRemote::open_upload(const std::string& source, const std::string& secret, Deadline deadline) {
  CAIRN_CHECK_OK(enter("open_upload", deadline));
  {
    std::lock_guard lock(mutex_);
    // The same source may take over once the old writer was silent for a while: here, when it asks again.
    bool own = upload_ && source == source_ && refused_++ > 0;
    if (upload_ && upload_->secret != secret && !own) {
      return Error(Code::kWriterLeaseHeld, "the volume is being written").with_holder("upload " + source_);
    }
    UploadGrant grant;
    grant.upload = UploadId::random(system_random());
    grant.lease = LeaseId::random(system_random());
    grant.secret = RequestId::random(system_random()).hex();
    grant.fence = ++fences_;
    grant.base = pin_locked(snapshots_.size() - 1);
    upload_ = grant;
    source_ = source;
    refused_ = 0;
  }
  CAIRN_CHECK_OK(leave("open_upload"));
  std::lock_guard lock(mutex_);
  return *upload_;
}

Status FakeRemote::heartbeat(const UploadGrant& grant, Deadline deadline) {
  CAIRN_CHECK_OK(enter("heartbeat", deadline));
  std::lock_guard lock(mutex_);
  return check_lease(grant);
}

Result<std::vector<transfer::PackSlot>> FakeRemote::exchange_packs(const UploadGrant& grant, std::span<const PackId> registered,
                                                                   std::span<const transfer::PackPromise> promises,
                                                                   Deadline deadline) {
  CAIRN_CHECK_OK(enter("exchange_packs", deadline));
  std::vector<transfer::PackSlot> slots;
  {
    std::lock_guard lock(mutex_);
    CAIRN_CHECK_OK(check_lease(grant));
    for (const PackId& id : registered) {
      auto found = packs_.find(id);
      if (found == packs_.end() || !found->second.stored) return Error(Code::kObjectNotFound, "pack " + id.hex());
      if (found->second.promise.kind == transfer::PackKind::kChangeset || found->second.index) continue;
      CAIRN_TRY(found->second.index, store::parse_pack(found->second.bytes));
    }
    for (const transfer::PackPromise& promise : promises) {
      PackId id = PackId::random(system_random());
      packs_[id].promise = promise;
      slots.push_back(transfer::PackSlot{id, id.hex()});
    }
  }
  CAIRN_CHECK_OK(leave("exchange_packs"));
  return slots;
}

Result<std::vector<transfer::PackUrl>> FakeRemote::resumable_packs(const UploadGrant& grant, Deadline deadline) {
  CAIRN_CHECK_OK(enter("resumable_packs", deadline));
  std::lock_guard lock(mutex_);
  CAIRN_CHECK_OK(check_lease(grant));
  std::vector<transfer::PackUrl> urls;
  for (auto& [id, pack] : packs_) {
    if (!pack.stored || pack.promise.kind != transfer::PackKind::kData) continue;
    // Completed as the server does: what arrived is registered now.
    if (!pack.index) {
      CAIRN_TRY(pack.index, store::parse_pack(pack.bytes));
    }
    urls.push_back(transfer::PackUrl{id, id.hex(), pack.bytes.size()});
  }
  return urls;
}

Status FakeRemote::put_object(const transfer::PackSlot& slot, std::span<const uint8_t> bytes, Deadline deadline) {
  CAIRN_CHECK_OK(enter("put_object", deadline));
  {
    std::lock_guard lock(mutex_);
    Pack& pack = packs_.at(slot.pack);
    if (bytes.size() != pack.promise.size_bytes || codec::crc32c(bytes) != pack.promise.crc32c) {
      return Error(Code::kUrlInvalid, "not the promised bytes");
    }
    pack.stored = true;
    if (discard_packs && pack.promise.kind == transfer::PackKind::kData) {
      CAIRN_TRY(pack.index, store::parse_pack(bytes));
    } else {
      pack.bytes.assign(bytes.begin(), bytes.end());
    }
    bytes_put_ += bytes.size();
    ++packs_put_;
  }
  return leave("put_object");
}

Status FakeRemote::apply(const Pack& changeset, Tree& tree) const {
  store::BytesSource source(changeset.bytes);
  store::ChangesetReader reader(source);
  store::Change change;
  while (true) {
    CAIRN_TRY(bool more, reader.next(change));
    if (!more) return ok();
    const std::string& path = change.entry.path;
    if (change.kind == store::Change::Kind::kDelete) {
      tree.erase(path);
      continue;
    }
    if (change.kind == store::Change::Kind::kDeletePrefix) {
      std::erase_if(tree, [&](const auto& item) { return store::is_at_or_under(item.first, path); });
      continue;
    }
    store::Entry entry = change.entry;
    while (true) {
      CAIRN_TRY(std::span<const store::ChunkRef> chunks, reader.next_chunks());
      if (chunks.empty()) break;
      for (const store::ChunkRef& chunk : chunks) {
        auto pack = packs_.find(chunk.place.pack);
        if (pack == packs_.end() || !pack->second.index || !pack->second.index->holds(chunk)) {
          return Error(Code::kChangesetInvalid, "names a chunk that no registered pack holds: " + path);
        }
        entry.chunks.push_back(chunk);
      }
    }
    tree[path] = std::move(entry);
  }
}

Result<transfer::Published> FakeRemote::publish(const UploadGrant& grant, const transfer::PublishRequest& request,
                                                Deadline deadline) {
  CAIRN_CHECK_OK(enter("publish", deadline));
  transfer::Published published;
  {
    std::lock_guard lock(mutex_);
    CAIRN_CHECK_OK(check_lease(grant));
    if (std::exchange(lose_chunks_, false)) return Error(Code::kChunksGone, "a pack is going");
    Tree tree = snapshots_.back();
    CAIRN_CHECK_OK(apply(packs_.at(request.changeset), tree));
    std::string file;
    for (const auto& [path, entry] : tree) {
      if (!file.empty() && store::is_under(path, file)) return Error(Code::kPathTypeConflict, path + " lies below a file");
      file = entry.kind == store::EntryKind::kDirectory ? std::string() : path;
      published.files += entry.kind == store::EntryKind::kFile ? 1 : 0;
      published.bytes += entry.size;
    }
    snapshots_.push_back(std::move(tree));
    published.snapshot = snapshots_.size() - 1;
  }
  CAIRN_CHECK_OK(leave("publish"));
  return published;
}

Status FakeRemote::close_upload(const UploadGrant& grant, Deadline deadline) {
  CAIRN_CHECK_OK(enter("close_upload", deadline));
  std::lock_guard lock(mutex_);
  if (upload_ && upload_->secret == grant.secret) upload_.reset();
  return ok();
}

Result<PinGrant> FakeRemote::pin(std::optional<uint64_t> number, Deadline deadline) {
  CAIRN_CHECK_OK(enter("pin", deadline));
  std::lock_guard lock(mutex_);
  if (number && *number >= snapshots_.size()) return Error(Code::kSnapshotNotFound, "no such snapshot");
  return pin_locked(number && *number != 0 ? *number : snapshots_.size() - 1);
}

void FakeRemote::lose_pins() {
  std::lock_guard lock(mutex_);
  pins_.clear();
}

Result<size_t> FakeRemote::pinned_locked(const PinId& pin) const {
  auto found = pins_.find(pin);
  if (found == pins_.end()) return Error(Code::kPinNotFound, "no such pin");
  return found->second;
}

Status FakeRemote::unpin(const PinId& pin, Deadline) {
  std::lock_guard lock(mutex_);
  pins_.erase(pin);
  return ok();
}

Result<std::optional<transfer::RemoteStat>> FakeRemote::stat(const PinId& pin, const std::string& path, Deadline deadline) {
  CAIRN_CHECK_OK(enter("stat", deadline));
  std::lock_guard lock(mutex_);
  CAIRN_TRY(size_t pinned, pinned_locked(pin));
  const Tree& tree = snapshots_.at(pinned);
  auto at = tree.lower_bound(path);
  if (path.empty()) return std::optional(transfer::RemoteStat{store::EntryKind::kDirectory, 0});
  if (at == tree.end() || !store::is_at_or_under(at->first, path)) return std::optional<transfer::RemoteStat>();
  if (at->first != path) return std::optional(transfer::RemoteStat{store::EntryKind::kDirectory, 0});
  return std::optional(transfer::RemoteStat{at->second.kind, at->second.size});
}

Result<transfer::ListingPage> FakeRemote::listing(const PinId& pin, const std::string& path, const transfer::ListingCursor& from,
                                                  uint64_t max_bytes, Deadline deadline) {
  CAIRN_CHECK_OK(enter("listing", deadline));
  std::lock_guard lock(mutex_);
  CAIRN_TRY(size_t pinned, pinned_locked(pin));
  const Tree& tree = snapshots_.at(pinned);
  uint64_t limit = std::min(max_bytes, listing_bytes);
  store::BytesSink sink;
  store::ChangesetWriter writer(sink, store::ChangesetMode::kListing);
  transfer::ListingPage page;
  auto at = from.after.empty() ? tree.lower_bound(path)
            : from.chunk_after ? tree.find(from.after)
                               : tree.upper_bound(from.after);
  uint64_t skip = from.chunk_after;
  for (; at != tree.end() && store::is_at_or_under(at->first, path); ++at, skip = 0) {
    if (writer.raw_bytes() >= limit) {
      page.next = transfer::ListingCursor{std::prev(at)->first, 0};
      break;
    }
    CAIRN_CHECK_OK(writer.put(at->second, skip));
    std::span<const store::ChunkRef> chunks(at->second.chunks);
    chunks = chunks.subspan(skip);
    // A file of many chunks is cut.
    constexpr size_t kCut = 100;
    size_t taken = std::min(chunks.size(), kCut);
    if (taken != 0) CAIRN_CHECK_OK(writer.add_chunks(chunks.first(taken)));
    if (taken < chunks.size()) {
      page.next = transfer::ListingCursor{at->first, skip + taken};
      break;
    }
  }
  CAIRN_CHECK_OK(writer.finish());
  page.changeset = sink.take();
  if (rewrite_listing) page.changeset = rewrite_listing(std::move(page.changeset));
  return page;
}

Result<std::vector<transfer::PackUrl>> FakeRemote::get_urls(const PinId& pin, std::span<const PackId> packs, Deadline deadline) {
  CAIRN_CHECK_OK(enter("get_urls", deadline));
  std::lock_guard lock(mutex_);
  CAIRN_CHECK_OK(pinned_locked(pin));
  std::vector<transfer::PackUrl> urls;
  for (const PackId& id : packs) {
    auto found = packs_.find(id);
    if (found == packs_.end()) return Error(Code::kObjectNotFound, "pack " + id.hex());
    urls.push_back(transfer::PackUrl{id, id.hex(), found->second.bytes.size()});
  }
  return urls;
}

Status FakeRemote::get_range(const std::string& url, uint64_t offset, std::span<uint8_t> out, Deadline deadline) {
  CAIRN_CHECK_OK(enter("get_range", deadline));
  std::lock_guard lock(mutex_);
  auto id = PackId::from_hex(url);
  if (!id || !packs_.contains(*id)) return Error(Code::kObjectNotFound, url);
  const Pack& pack = packs_.at(*id);
  if (offset > pack.bytes.size() || out.size() > pack.bytes.size() - offset) return Error(Code::kDataCorrupt, "past the end");
  std::memcpy(out.data(), pack.bytes.data() + offset, out.size());
  if (corrupt) corrupt(*id, offset, out);
  return ok();
}

}  // namespace cairn::testing
