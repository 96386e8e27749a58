// Any bytes as a frame: the first two choose the expected size.
#include "codec/zstd_frame.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cairn::codec;
  static Decompressor decompressor;
  ByteReader reader(ByteView(data, size));
  size_t expected = reader.u16();
  Bytes out(expected);
  static_cast<void>(decompressor.decompress(reader.bytes(reader.remaining()), out).has_value());
  return 0;
}
