// Any bytes as a frame: with the lengths its own header states, and as a stranger's.
#include <cstdint>

#include "store/frame.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cairn::store;
  ByteView input(data, size);
  FrameDecoder decoder;
  if (auto header = parse_frame_header(input)) {
    Bytes out(header->raw_len);
    (void)decoder.decode_into(input, out, nullptr);
  }
  ChunkRef expected;
  expected.raw_len = 1000;
  expected.place.stored_len = static_cast<uint32_t>(size);
  (void)decoder.decode(input, expected);
  return 0;
}
