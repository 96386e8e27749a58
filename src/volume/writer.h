// What uploads and publications share: who presents a secret, what he may still do, how a pack row comes to be.
// Private to volume/.
#pragma once

#include <string_view>

#include "catalog/leases.h"
#include "catalog/packs.h"
#include "catalog/uploads.h"
#include "object/object_key.h"
#include "volume/context.h"

namespace cairn::volume {

struct Writer {
  catalog::UploadRow upload;
  catalog::LeaseRow lease;
  // Its lease was taken from it. Only runs and sessions get this far then: what they bring goes aside.
  bool fenced_off = false;
};

// Runs and sessions never lose work: what cannot be published goes into a side snapshot.
inline bool keeps_work_aside(const catalog::UploadRow& upload) {
  return upload.kind == "run" || upload.kind == "session";
}

// The writer behind an open upload: upload_not_found, upload_expired, or lease_lost for an upload that was fenced off.
Result<Writer> open_writer(catalog::Tx& tx, UploadId id);
// The same for whoever presents the lease secret: not_allowed for another secret.
Result<Writer> authorize(catalog::Tx& tx, UploadId id, std::string_view secret);

// Issues a pack id and writes its `promised` row. Its object is s/<store>/p/<id>.
Result<catalog::PackRow> promise_pack(Context& context, catalog::Tx& tx, StoreId store, std::optional<UploadId> upload,
                                      std::string_view kind, int64_t size_bytes, uint32_t crc32c, int64_t ticket);

}  // namespace cairn::volume
