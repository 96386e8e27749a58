// The input is a program for a ByteReader over itself: no sequence of reads leaves the view, and what a varint reads
// writes back as the same bytes.
#include "base/check.h"
#include "codec/bytes.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cairn::codec;
  ByteView input(data, size);
  ByteReader reader(input);
  ByteReader program(input);
  while (program.ok() && !program.at_end()) {
    size_t before = reader.position();
    switch (program.u8() % 8) {
      case 0: reader.u16(); break;
      case 1: reader.u32(); break;
      case 2: reader.u64(); break;
      case 3: {
        uint64_t value = reader.varint();
        if (!reader.ok()) break;
        Bytes again;
        ByteWriter(again).varint(value);
        CAIRN_CHECK(equal(again, input.subspan(before, reader.position() - before)));
        break;
      }
      case 4: CAIRN_CHECK(reader.prefixed(16).size() <= 16); break;
      case 5: reader.zigzag(); break;
      case 6: reader.skip(program.u8()); break;
      case 7: reader.expect_zeros(1); break;
    }
    CAIRN_CHECK(reader.position() <= size);
    CAIRN_CHECK(reader.remaining() == (reader.ok() ? size - reader.position() : 0));
  }
  return 0;
}
