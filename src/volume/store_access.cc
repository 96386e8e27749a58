#include "volume/store_access.h"

#include "object/object_store.h"

namespace cairn::volume {

struct NodeSources::OneStore {
  OneStore(object::ObjectStore& objects, StoreId the_id, uint64_t cache_bytes)
      : id(the_id), reader(objects, the_id), source(reader, cache_bytes) {}
  StoreId id;
  store::ObjectPackReader reader;
  store::CachedNodeSource source;
};

std::shared_ptr<store::NodeSource> NodeSources::get(StoreId store) {
  std::lock_guard lock(mutex_);
  for (auto it = used_.begin(); it != used_.end(); ++it) {
    if ((*it)->id != store) continue;
    used_.splice(used_.begin(), used_, it);
    return std::shared_ptr<store::NodeSource>(used_.front(), &used_.front()->source);
  }
  used_.push_front(
      std::make_shared<OneStore>(context_.objects, store, context_.settings.node_cache_bytes / kStoresMax));
  if (used_.size() > kStoresMax) used_.pop_back();
  return std::shared_ptr<store::NodeSource>(used_.front(), &used_.front()->source);
}

Result<PackEnd> read_pack_end(object::ObjectStore& objects, const std::string& key, int64_t size_bytes,
                              const Deadline& deadline) {
  if (size_bytes < static_cast<int64_t>(store::kPackHeaderBytes + store::kPackFooterBytes) ||
      size_bytes > static_cast<int64_t>(limits::kPackBytesMax)) {
    return Error(Code::kPackInvalid, "a pack of " + std::to_string(size_bytes) + " bytes cannot be");
  }
  auto size = static_cast<uint64_t>(size_bytes);
  CAIRN_TRY(object::ObjectKey object_key, object::ObjectKey::parse(key));
  CAIRN_TRY(codec::Bytes header, objects.get(object_key, 0, store::kPackHeaderBytes, deadline));
  CAIRN_TRY(store::PackKind kind, store::parse_pack_header(header));
  if (kind != store::PackKind::kData) return Error(Code::kPackInvalid, "the pack does not hold chunks");
  CAIRN_TRY(codec::Bytes footer,
            objects.get(object_key, size - store::kPackFooterBytes, store::kPackFooterBytes, deadline));
  PackEnd end;
  CAIRN_TRY(end.tail, store::parse_pack_footer(footer, size));
  CAIRN_TRY(codec::Bytes index, objects.get(object_key, end.tail.index_offset, end.tail.index_bytes(), deadline));
  CAIRN_TRY(store::PackIndex parsed, store::PackIndex::parse(end.tail, index));
  end.index = std::make_shared<const store::PackIndex>(std::move(parsed));
  return end;
}

Result<std::shared_ptr<const store::PackIndex>> PackIndexes::get(const catalog::PackRow& pack,
                                                                 const Deadline& deadline) {
  {
    std::lock_guard lock(mutex_);
    auto found = cached_.find(pack.id);
    if (found != cached_.end()) {
      used_.splice(used_.begin(), used_, found->second.place);
      return found->second.index;
    }
  }
  CAIRN_TRY(PackEnd end, read_pack_end(context_.objects, pack.object_key, pack.size_bytes, deadline));
  if (!pack.seal || end.tail.seal.hex() != *pack.seal) {
    return Error(Code::kDataCorrupt, "the index of pack " + pack.id.hex() + " is not the one that was registered");
  }
  size_t bytes = end.index->frames().size() * sizeof(store::FrameInfo) + 256;
  std::lock_guard lock(mutex_);
  if (cached_.contains(pack.id)) return end.index;
  used_.push_front(pack.id);
  cached_[pack.id] = Cached{end.index, bytes, used_.begin()};
  bytes_ += bytes;
  while (bytes_ > context_.settings.index_cache_bytes && used_.size() > 1) {
    auto oldest = cached_.find(used_.back());
    bytes_ -= oldest->second.bytes;
    cached_.erase(oldest);
    used_.pop_back();
  }
  return end.index;
}

}  // namespace cairn::volume
