// Any bytes as a tree node and as a chunk list. What is accepted is what the encoder writes: it comes out again byte for byte.
#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "store/tree_node.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cairn::store;
  ByteView input(data, size);
  if (auto node = Node::decode(input)) {
    NodeBuilder builder((*node)->level());
    for (const EntryView& entry : (*node)->entries()) builder.add_entry(entry);
    for (const Child& child : (*node)->children()) builder.add_child(child.first_path, child.ref);
    auto encoded = builder.encode();
    CAIRN_CHECK(encoded && std::equal(encoded->begin(), encoded->end(), input.begin(), input.end()));
    CAIRN_CHECK(builder.digest() == (*node)->digest() && builder.counts() == (*node)->counts());
  }
  if (auto list = ListNode::decode(input)) {
    ListNodeBuilder builder((*list)->depth());
    for (const ChunkRef& chunk : (*list)->chunks()) builder.add_chunk(chunk);
    for (const ListChild& child : (*list)->children()) builder.add_child(child);
    auto encoded = builder.encode();
    CAIRN_CHECK(encoded && std::equal(encoded->begin(), encoded->end(), input.begin(), input.end()));
    CAIRN_CHECK(builder.digest() == (*list)->digest());
  }
  return 0;
}
