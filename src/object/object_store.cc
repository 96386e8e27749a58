#include "object/object_store.h"

namespace cairn::object {

Status ObjectReader::read_exactly(uint64_t offset, std::span<uint8_t> out) {
  size_t done = 0;
  while (done < out.size()) {
    CAIRN_TRY(size_t got, read_at(offset + done, out.subspan(done)));
    if (got == 0) {
      return Error(Code::kDataCorrupt, "the object ends at " + std::to_string(offset + done) + "; " +
                                           std::to_string(offset + out.size()) + " bytes were expected");
    }
    done += got;
  }
  return ok();
}

Result<Bytes> ObjectStore::get_all(const ObjectKey& key, uint64_t max_bytes, const Deadline& deadline) {
  CAIRN_TRY(ObjectInfo info, head(key, deadline));
  if (info.size > max_bytes) {
    return Error(Code::kLimitExceeded, "object " + key.text() + " is " + std::to_string(info.size) +
                                           " bytes; at most " + std::to_string(max_bytes) + " are expected");
  }
  return get(key, 0, info.size, deadline);
}

}  // namespace cairn::object
