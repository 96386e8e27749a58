#include "catalog/tasks.h"

#include <fmt/format.h>

namespace cairn::catalog {

Result<std::optional<TaskLease>> take_task(Tx& tx, std::string_view name, std::string_view holder, Duration duration) {
  CAIRN_TRY(Rows rows,
            tx.query("insert into tasks (name, holder, ticket, expires_lease_us)"
                     " values (?1, ?2, 1, (select lease_us from catalog_clock) + ?3)"
                     " on conflict (name) do update set holder = excluded.holder, ticket = tasks.ticket + 1,"
                     " expires_lease_us = excluded.expires_lease_us"
                     " where tasks.holder = excluded.holder"
                     " or tasks.expires_lease_us <= (select lease_us from catalog_clock)"
                     " returning ticket",
                     {std::string(name), std::string(holder), duration.count()}));
  if (rows.empty()) return std::optional<TaskLease>();
  return std::optional<TaskLease>(TaskLease{std::string(name), std::string(holder), rows[0].integer(0)});
}

Status hold_task(Tx& tx, const TaskLease& lease, Duration duration) {
  CAIRN_TRY(int64_t held, tx.update("update tasks set expires_lease_us = (select lease_us from catalog_clock) + ?1"
                                    " where name = ?2 and ticket = ?3",
                                    {duration.count(), lease.name, lease.ticket}));
  if (held == 1) return ok();
  return Error(Code::kLeaseLost, fmt::format("another server has taken the background task '{}' (ticket {} is old)",
                                             lease.name, lease.ticket));
}

Status release_task(Tx& tx, const TaskLease& lease) {
  CAIRN_TRY(Outcome released, tx.exec("update tasks set expires_lease_us = (select lease_us from catalog_clock)"
                                      " where name = ?1 and ticket = ?2",
                                      {lease.name, lease.ticket}));
  return ok();
}

}  // namespace cairn::catalog
