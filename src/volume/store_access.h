// How this module reads a store: verified tree nodes and sealed pack indexes, each through a bounded cache. Nothing
// here is believed that was not checked against a digest or a seal from the catalog. Private to volume/.
//
// Thread-safe.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <mutex>

#include "base/deadline.h"
#include "catalog/packs.h"
#include "store/node_source.h"
#include "store/pack.h"
#include "volume/context.h"

namespace cairn::volume {

// One node cache per store, for the few stores used last.
class NodeSources {
 public:
  explicit NodeSources(Context& context) : context_(context) {}
  std::shared_ptr<store::NodeSource> get(StoreId store);

 private:
  static constexpr size_t kStoresMax = 8;
  struct OneStore;
  Context& context_;
  std::mutex mutex_;
  std::list<std::shared_ptr<OneStore>> used_;  // latest first
};

// Reads and checks the end of a pack: footer, index, seal. pack_invalid when it is not a pack of `size_bytes`.
struct PackEnd {
  store::PackTail tail;
  std::shared_ptr<const store::PackIndex> index;
};
Result<PackEnd> read_pack_end(object::ObjectStore& objects, const std::string& key, int64_t size_bytes,
                              const Deadline& deadline);

// Sealed indexes of registered packs. data_corrupt when a pack's seal is not the one in its row.
class PackIndexes {
 public:
  explicit PackIndexes(Context& context) : context_(context) {}
  Result<std::shared_ptr<const store::PackIndex>> get(const catalog::PackRow& pack, const Deadline& deadline);

 private:
  struct Cached {
    std::shared_ptr<const store::PackIndex> index;
    size_t bytes = 0;
    std::list<PackId>::iterator place;
  };
  Context& context_;
  std::mutex mutex_;
  std::map<PackId, Cached> cached_;
  std::list<PackId> used_;  // latest first
  size_t bytes_ = 0;
};

}  // namespace cairn::volume
