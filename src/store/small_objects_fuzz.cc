// Any bytes as a root, a store header, an epoch object, a snapshot record, a path.
#include <cstdint>

#include "base/check.h"
#include "store/paths.h"
#include "store/store_header.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cairn::store;
  ByteView input(data, size);
  if (auto root = decode_root(input)) CAIRN_CHECK(cairn::codec::equal(encode_root(*root), input));
  (void)decode_store_header(input);
  (void)decode_epoch(cairn::StoreId(), input);
  if (auto record = decode_snapshot_record(input)) CAIRN_CHECK(cairn::codec::equal(*encode_snapshot_record(*record), input));
  std::string_view text = cairn::codec::as_text(input);
  if (auto path = normalize_path(text); path && !path->empty()) CAIRN_CHECK(is_valid_path(*path));
  (void)escape_for_display(text);
  return 0;
}
