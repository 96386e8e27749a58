// How long superseded snapshots are kept: a number of days (7 by default), the newest N, or none. Retention removes the
// rows of snapshots that nothing keeps; a snapshot stays as long as it is the head, tagged, pinned, a side snapshot
// within its time, or the base of such a one or of an unfinished upload, run or session. Interim snapshots go as soon
// as the same writer published a newer one.
//
// Thread-safe; any number of servers may run retention at once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "volume/context.h"

namespace cairn::volume {

struct HistoryPolicy {
  enum class Kind { kDays, kCount, kOff };
  Kind kind = Kind::kDays;
  int64_t amount = 7;

  // "7d", "20", "off".
  static Result<HistoryPolicy> parse(std::string_view text);
  std::string to_string() const;
  bool operator==(const HistoryPolicy&) const = default;
};

class Retention {
 public:
  explicit Retention(Context& context) : context_(context) {}
  // Removes what may go from one volume; answers how many snapshots went. Does nothing unless the volume is CREATED (a
  // trashed volume's history is frozen).
  Result<int64_t> run(VolumeId volume);
  // The same for every volume, and expired pins, uploads and side snapshots as well.
  Result<int64_t> run_all();

 private:
  Context& context_;
};

}  // namespace cairn::volume
