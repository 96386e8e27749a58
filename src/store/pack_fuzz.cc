// Any bytes as a whole pack; and as an index whose seal is made to fit, so that the rows are reached.
#include <cstdint>

#include "base/check.h"
#include "store/pack.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cairn::store;
  ByteView input(data, size);
  (void)parse_pack(input);
  if (size >= kPackFooterBytes) (void)parse_pack_footer(input.last(kPackFooterBytes), size);
  PackTail tail;
  tail.frame_count = static_cast<uint32_t>(size / kPackIndexRowBytes);
  ByteView rows = input.first(tail.index_bytes());
  tail.seal = cairn::codec::sha256(rows);
  uint32_t last = tail.frame_count == 0 ? 0 : tail.frame_count - 1;
  if (tail.frame_count > 0) {
    cairn::codec::ByteReader row(rows.subspan(last * kPackIndexRowBytes + 32));
    uint32_t offset = row.u32();
    row.u32();
    tail.index_offset = offset + static_cast<uint32_t>(kFrameHeaderBytes) + row.u32();
  }
  if (auto index = PackIndex::parse(tail, rows)) {
    for (const FrameInfo& frame : index->frames()) CAIRN_CHECK(index->find(frame.offset) == &frame);
  }
  return 0;
}
