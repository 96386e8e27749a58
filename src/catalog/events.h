// The audit trail: who did what to what, when and from where. Rows are only ever added. Never put a token, a secret or a
// signed URL into `detail`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "catalog/db.h"

namespace cairn::catalog {

struct Event {
  int64_t seq = 0;  // given when it is added
  Time at;
  std::optional<UserId> actor;  // nothing: Cairn itself
  std::string actor_name;
  std::string action;       // "volume.create"
  std::string object_kind;  // "volume"
  std::string object_name;  // as people know it
  std::string detail;
  std::string origin;  // client address or node name
};

struct EventFilter {
  std::string object_kind;  // empty: any
  std::string object_name;  // empty: any
  int64_t before_seq = INT64_MAX;
};

inline constexpr size_t kEventDetailBytesMax = 4096;
inline constexpr int64_t kEventsPageMax = 1000;

// A longer detail is cut.
Status add_event(Tx& tx, const Event& event);
// Newest first, at most min(limit, kEventsPageMax); the next page is before the last one's seq.
Result<std::vector<Event>> list_events(Tx& tx, const EventFilter& filter, int64_t limit);

}  // namespace cairn::catalog
