// Whether a staged lower still is what its manifest says.
//
// By stat alone where the stat says so. A file of which only the ctime is another one (a link to it was made or removed: its
// inode was shared with a lower that was evicted) is read and compared by its hashes, and the manifest learns the new time, so
// that this is done once.
#pragma once

#include <string>

#include "base/deadline.h"
#include "base/result.h"
#include "transfer/lower_store.h"

namespace cairn::transfer {

// data_corrupt, naming the path, when it is not. REQUIRES: a lock on the lower, shared or exclusive.
Status check_lower(const LowerStore& lowers, const std::string& root, const Deadline& deadline);

}  // namespace cairn::transfer
