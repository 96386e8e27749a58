#include <optional>

#include "base/check.h"
#include "store/tree_merge.h"

namespace cairn::store {

struct NodePackWriter::State {
  State(NodePackAllocator& a, const PackBuilder::Options& options) : allocator(&a), builder(options) {}

  NodePackAllocator* allocator;
  PackBuilder builder;
  std::optional<PackId> pack;
  std::optional<Error> failed;

  Status fail(Error error) {
    failed = error;
    return error;
  }
  Status store_pack();
};

Status NodePackWriter::State::store_pack() {
  auto built = builder.finish();
  if (!built) return fail(built.error());
  if (auto status = allocator->store(*pack, *built); !status) return fail(status.error());
  builder.reset();
  pack.reset();
  return ok();
}

NodePackWriter::NodePackWriter(NodePackAllocator& allocator, uint64_t pack_bytes_target) {
  PackBuilder::Options options;
  options.kind = PackKind::kNodes;
  options.target_bytes = pack_bytes_target;
  state_ = std::make_unique<State>(allocator, options);
}

NodePackWriter::~NodePackWriter() = default;

Result<FrameRef> NodePackWriter::add(ByteView raw) {
  State& s = *state_;
  if (s.failed) return *s.failed;
  if (s.pack && (s.builder.full() || !s.builder.fits(raw.size()))) CAIRN_CHECK_OK(s.store_pack());
  if (!s.pack) {
    auto id = s.allocator->next();
    if (!id) return s.fail(id.error()).error();
    s.pack = *id;
  }
  FrameRef frame;
  frame.frame_hash = codec::sha256(raw);
  frame.raw_len = static_cast<uint32_t>(raw.size());
  auto stored = s.builder.add(frame.frame_hash, raw);
  if (!stored) return s.fail(stored.error()).error();
  frame.place = Place{*s.pack, stored->offset, stored->stored_len};
  return frame;
}

Status NodePackWriter::finish() {
  if (state_->failed) return *state_->failed;
  return state_->pack ? state_->store_pack() : ok();
}

}  // namespace cairn::store
