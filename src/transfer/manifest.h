// A manifest is an entry spool under a name: what the volume holds as far as one run knows, with the inodes and times of the
// files on the node. It starts as a copy of the staged lower's and moves on with every publication.
#pragma once

#include <string>

#include "base/deadline.h"
#include "transfer/entry_spool.h"

namespace cairn::transfer {

// Replaces `file` atomically and durably by itself with `changes` (a spool of kPut and kDelete in path order) applied.
Status advance_manifest(const std::string& file, int changes_fd, const Deadline& deadline);

}  // namespace cairn::transfer
