#include "store/node_source.h"

#include <list>
#include <mutex>
#include <unordered_map>

#include <fmt/format.h>

#include "object/object_store.h"
#include "store/frame.h"
#include "store/pack.h"
#include "store/tree_node.h"

namespace cairn::store {

namespace {

struct CacheKey {
  PackId pack;
  uint32_t offset = 0;
  bool operator==(const CacheKey&) const = default;
};

struct CacheKeyHash {
  size_t operator()(const CacheKey& key) const noexcept {
    return std::hash<PackId>()(key.pack) ^ (size_t{key.offset} * 0x9e3779b97f4a7c15);
  }
};

struct Cached {
  CacheKey key;
  Digest frame_hash;
  std::shared_ptr<const Node> node;      // one of the two
  std::shared_ptr<const ListNode> list;
  size_t bytes = 0;
};

Error not_the_node(const FrameRef& frame, std::string_view what) {
  return Error(Code::kDataCorrupt, fmt::format("the tree node in pack {} at {} {}", frame.place.pack.hex(),
                                               frame.place.offset, what));
}

Status check_node(const Node& node, const NodeRef& ref) {
  if (node.level() != ref.level) return not_the_node(ref.frame, "has another level than its parent says");
  if (node.digest() != ref.digest) return not_the_node(ref.frame, "has another digest than its parent says");
  if (!(node.counts() == ref.counts)) return not_the_node(ref.frame, "has other counts than its parent says");
  return ok();
}

Status check_list(const ListNode& list, const ListRef& ref) {
  if (list.depth() != ref.depth) return not_the_node(ref.frame, "has another depth than its entry says");
  if (list.digest() != ref.digest) return not_the_node(ref.frame, "has another digest than its entry says");
  if (list.chunk_count() != ref.chunk_count) return not_the_node(ref.frame, "has another chunk count than its entry says");
  return ok();
}

}  // namespace

Result<Bytes> ObjectPackReader::read(const PackId& pack, uint64_t offset, uint64_t length, const Deadline& deadline) {
  return objects_->get(pack_key(store_, pack), offset, length, deadline);
}

struct CachedNodeSource::State {
  State(PackReader& p, uint64_t max) : packs(&p), bytes_max(max) {}

  PackReader* packs;
  uint64_t bytes_max;
  mutable std::mutex mutex;
  std::list<Cached> recent;  // the most recently used first
  std::unordered_map<CacheKey, std::list<Cached>::iterator, CacheKeyHash> index;
  Stats stats;

  std::optional<Cached> lookup(const FrameRef& frame);
  void insert(Cached cached);
  Result<Bytes> fetch(const FrameRef& frame, const Deadline& deadline);
};

std::optional<Cached> CachedNodeSource::State::lookup(const FrameRef& frame) {
  std::lock_guard lock(mutex);
  auto it = index.find(CacheKey{frame.place.pack, frame.place.offset});
  // Another hash at the same place is a damaged reference: let the read find out.
  if (it == index.end() || it->second->frame_hash != frame.frame_hash) return std::nullopt;
  recent.splice(recent.begin(), recent, it->second);
  ++stats.hits;
  return *it->second;
}

void CachedNodeSource::State::insert(Cached cached) {
  if (cached.bytes > bytes_max) return;
  std::lock_guard lock(mutex);
  if (index.contains(cached.key)) return;
  stats.cached_bytes += cached.bytes;
  recent.push_front(std::move(cached));
  index[recent.front().key] = recent.begin();
  while (stats.cached_bytes > bytes_max) {
    stats.cached_bytes -= recent.back().bytes;
    index.erase(recent.back().key);
    recent.pop_back();
  }
}

Result<Bytes> CachedNodeSource::State::fetch(const FrameRef& frame, const Deadline& deadline) {
  if (frame.raw_len > limits::kNodeBytesMax || frame.place.stored_len > limits::kNodeBytesMax) {
    return not_the_node(frame, "is longer than 256 KiB");
  }
  CAIRN_TRY(Bytes bytes, packs->read(frame.place.pack, frame.place.offset, kFrameHeaderBytes + frame.place.stored_len,
                                     deadline));
  {
    std::lock_guard lock(mutex);
    ++stats.reads;
  }
  FrameDecoder decoder;
  auto raw = decoder.decode(bytes, frame);
  if (!raw) return not_the_node(frame, fmt::format("is damaged: {}", raw.error().message()));
  return raw;
}

CachedNodeSource::CachedNodeSource(PackReader& packs, uint64_t cache_bytes)
    : state_(std::make_unique<State>(packs, cache_bytes)) {}
CachedNodeSource::~CachedNodeSource() = default;

Result<std::shared_ptr<const Node>> CachedNodeSource::read_node(const NodeRef& ref, const Deadline& deadline) {
  CAIRN_CHECK_OK(deadline.check());
  std::shared_ptr<const Node> node;
  if (auto cached = state_->lookup(ref.frame); cached && cached->node) {
    node = cached->node;
  } else {
    CAIRN_TRY(Bytes raw, state_->fetch(ref.frame, deadline));
    CAIRN_TRY(node, Node::decode(raw));
    Cached entry{{ref.frame.place.pack, ref.frame.place.offset}, ref.frame.frame_hash, node, nullptr, node->memory_bytes()};
    state_->insert(std::move(entry));
  }
  CAIRN_CHECK_OK(check_node(*node, ref));
  return node;
}

Result<std::shared_ptr<const ListNode>> CachedNodeSource::read_list(const ListRef& ref, const Deadline& deadline) {
  CAIRN_CHECK_OK(deadline.check());
  std::shared_ptr<const ListNode> list;
  if (auto cached = state_->lookup(ref.frame); cached && cached->list) {
    list = cached->list;
  } else {
    CAIRN_TRY(Bytes raw, state_->fetch(ref.frame, deadline));
    CAIRN_TRY(list, ListNode::decode(raw));
    Cached entry{{ref.frame.place.pack, ref.frame.place.offset}, ref.frame.frame_hash, nullptr, list, list->memory_bytes()};
    state_->insert(std::move(entry));
  }
  CAIRN_CHECK_OK(check_list(*list, ref));
  return list;
}

CachedNodeSource::Stats CachedNodeSource::stats() const {
  std::lock_guard lock(state_->mutex);
  return state_->stats;
}

}  // namespace cairn::store
