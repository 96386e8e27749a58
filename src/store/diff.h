// The difference of two trees, in path order. Subtrees with equal digests are skipped without being read.
//
// Runs on the caller's thread.
#pragma once

#include "base/deadline.h"
#include "base/result.h"
#include "store/node_source.h"
#include "store/types.h"

namespace cairn::store {

class DiffSink {
 public:
  virtual ~DiffSink() = default;
  // Added: `before` is null. Removed: `after` is null. Changed: both, with the same path and other content. The views are
  // valid during the call. An error ends the diff with it.
  virtual Status on_change(const EntryView* before, const EntryView* after) = 0;
};

Status diff_trees(NodeSource& source, const RootRef& before, const RootRef& after, DiffSink& sink,
                  const Deadline& deadline);

}  // namespace cairn::store
