#include "catalog/catalog_clock.h"

#include <algorithm>

#include "catalog/dialect.h"

namespace cairn::catalog {

Result<Time> CatalogClock::raw(Tx& tx) {
  std::string_view sql = clock_sql(tx.engine());
  if (sql.empty() || clock_ != &system_clock()) return clock_->now();
  CAIRN_TRY(Rows rows, tx.query(sql));
  return rows.at(0).time(0);
}

Time CatalogClock::never_back(Time time) {
  std::lock_guard lock(mutex_);
  // So far ahead of clock and catalog was only a jump that was undone.
  if (Time{highest_us_} - time > kJumpMax) highest_us_ = 0;
  highest_us_ = std::max(highest_us_, time.us);
  return Time{highest_us_};
}

Result<Time> CatalogClock::now(Tx& tx) {
  CAIRN_TRY(Time clock, raw(tx));
  CAIRN_TRY(Rows rows, tx.query("select now_us from catalog_clock where id = 1"));
  return never_back(std::max(clock, rows.at(0).time(0)));
}

Result<Time> CatalogClock::removal_now(Tx& tx) {
  CAIRN_TRY(Rows rows, tx.query("select removal_us from catalog_clock where id = 1"));
  return rows.at(0).time(0);
}

Result<LeaseTime> CatalogClock::lease_now(Tx& tx) {
  CAIRN_TRY(Rows rows, tx.query("select lease_us from catalog_clock where id = 1"));
  return LeaseTime{rows.at(0).integer(0)};
}

Result<CatalogClock::Stamp> CatalogClock::stamp(Tx& tx) {
  CAIRN_TRY(Time clock, raw(tx));
  CAIRN_TRY(Rows rows, tx.query("select now_us, raw_us, lease_us, removal_us, hold_until_lease_us from catalog_clock"
                                " where id = 1"));
  Time stored_now = rows.at(0).time(0);
  Time stored_raw = rows.at(0).time(1);
  LeaseTime stored_lease{rows.at(0).integer(2)};
  Time removal = rows.at(0).time(3);
  LeaseTime hold_until{rows.at(0).integer(4)};
  if (stored_raw.us == 0) {  // the first stamp of all
    stored_raw = clock;
    removal = std::max(stored_now, clock);
  }
  Stamp stamp;
  Duration passed = clock - stored_raw;
  bool counts = passed >= Duration(0) && passed <= kGapMax;
  stamp.lease_now = counts ? stored_lease + passed : stored_lease;
  if (!counts) stamp.paused = std::max(passed, Duration(0));
  removal = removal + (stamp.lease_now - stored_lease);
  if (passed > kJumpMax) hold_until = stamp.lease_now + kHold;

  if (passed < -kJumpMax && stamp.lease_now < hold_until) {
    stamp.taken_back = true;
    stored_now = std::max(removal, clock);
  } else if (passed < Duration(0)) {
    // After a step back others may have been told times up to one gap beyond the last stamp.
    stored_now = stored_now + kGapMax;
  }
  stamp.now = never_back(std::max(stored_now, clock));
  if (stamp.lease_now >= hold_until || stamp.now - removal <= kJumpMax) {
    removal = stamp.now;
    hold_until = LeaseTime{};
  }
  stamp.held = stamp.now - removal;
  CAIRN_TRY(int64_t written,
            tx.update("update catalog_clock set now_us = ?1, raw_us = ?2, lease_us = ?3, paused_us = paused_us + ?4,"
                      " removal_us = ?5, hold_until_lease_us = ?6 where id = 1",
                      {stamp.now.us, clock.us, stamp.lease_now.us, stamp.paused.count(), removal.us, hold_until.us}));
  if (written != 1) return Error(Code::kDataCorrupt, "the catalog has no clock row");
  return stamp;
}

Result<CatalogClock::Stamp> CatalogClock::stamp(Db& db, const Deadline& deadline) {
  return db.transact([&](Tx& tx) { return stamp(tx); }, deadline);
}

}  // namespace cairn::catalog
