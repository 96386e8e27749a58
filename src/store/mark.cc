#include "store/mark.h"

#include "store/tree_node.h"

namespace cairn::store {

Status Marker::add(const RootRef& root, const Deadline& deadline) {
  if (root.counts.entries == 0) return ok();
  packs_.insert(root.frame.place.pack);
  return mark_node(root, deadline);
}

Status Marker::mark_node(const NodeRef& ref, const Deadline& deadline) {
  if (visited_.contains(ref.frame.frame_hash)) return ok();
  CAIRN_TRY(auto node, source_->read_node(ref, deadline));
  ++frames_read_;
  packs_.insert(node->packs().begin(), node->packs().end());
  for (const Child& child : node->children()) CAIRN_CHECK_OK(mark_node(child.ref, deadline));
  for (const EntryView& entry : node->entries()) {
    if (entry.list != nullptr) CAIRN_CHECK_OK(mark_list(*entry.list, deadline));
  }
  // Only now: a node counts as seen when all below it was.
  visited_.insert(ref.frame.frame_hash);
  return ok();
}

Status Marker::mark_list(const ListRef& ref, const Deadline& deadline) {
  if (visited_.contains(ref.frame.frame_hash)) return ok();
  CAIRN_TRY(auto list, source_->read_list(ref, deadline));
  ++frames_read_;
  packs_.insert(list->packs().begin(), list->packs().end());
  if (list->depth() > 1) {
    auto depth = static_cast<uint8_t>(list->depth() - 1);
    for (const ListChild& child : list->children()) {
      CAIRN_CHECK_OK(mark_list(ListRef{child.digest, depth, child.chunk_count, child.frame}, deadline));
    }
  }
  visited_.insert(ref.frame.frame_hash);
  return ok();
}

}  // namespace cairn::store
