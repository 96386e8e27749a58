// Any bytes as a changeset and as a listing, and any bytes as the one block of a changeset whose checksums are made to fit.
#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "codec/crc32c.h"
#include "store/changeset.h"
#include "store/paths.h"

namespace {

using namespace cairn::store;

void read_all(ByteView input, ChangesetMode mode) {
  BytesSource source(input);
  ChangesetReader reader(source, mode);
  Change change;
  std::string last;
  for (;;) {
    auto more = reader.next(change);
    if (!more || !*more) return;
    CAIRN_CHECK(is_valid_path(change.entry.path) && (last.empty() || path_compare(last, change.entry.path) <= 0));
    last = change.entry.path;
    for (auto chunks = reader.next_chunks(); chunks && !chunks->empty();) chunks = reader.next_chunks();
  }
}

Bytes wrap(ByteView block, uint8_t mode) {
  Bytes bytes;
  cairn::codec::ByteWriter writer(bytes);
  writer.bytes("CTC1");
  writer.u8(1);
  writer.u8(mode);
  size_t header = bytes.size();
  writer.u32(static_cast<uint32_t>(block.size()));
  writer.u32(static_cast<uint32_t>(block.size()));
  writer.u32(cairn::codec::crc32c(block, cairn::codec::crc32c(ByteView(bytes).subspan(header, 8))));
  writer.bytes(block);
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ByteView input(data, size);
  read_all(input, ChangesetMode::kChangeset);
  read_all(input, ChangesetMode::kListing);
  read_all(wrap(input, 0), ChangesetMode::kChangeset);
  read_all(wrap(input, 1), ChangesetMode::kListing);
  return 0;
}
