// Which server runs which background task. A task is taken for a time (in lease time, so an outage takes nothing away) and
// each take has a ticket, higher than all before. A step that must not happen when another server has taken over calls
// `hold_task` in its own transaction: the row is written, so the step and a take-over cannot both commit unseen.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "catalog/catalog_clock.h"
#include "catalog/db.h"

namespace cairn::catalog {

struct TaskLease {
  std::string name;
  std::string holder;
  int64_t ticket = 0;
};

// Nothing while another holder has it. The same holder takes it anew, with a new ticket.
Result<std::optional<TaskLease>> take_task(Tx& tx, std::string_view name, std::string_view holder, Duration duration);
// Renews; kLeaseLost when the ticket is no longer the newest.
Status hold_task(Tx& tx, const TaskLease& lease, Duration duration);
// Ends it now; does nothing when it was lost.
Status release_task(Tx& tx, const TaskLease& lease);

}  // namespace cairn::catalog
