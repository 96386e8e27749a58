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
  int64_t highest = highest_us_.load();
  while (highest < time.us && !highest_us_.compare_exchange_weak(highest, time.us)) {
  }
  return Time{std::max(highest, time.us)};
}

Result<Time> CatalogClock::now(Tx& tx) {
  CAIRN_TRY(Time clock, raw(tx));
  CAIRN_TRY(Rows rows, tx.query("select now_us from catalog_clock where id = 1"));
  return never_back(std::max(clock, rows.at(0).time(0)));
}

Result<LeaseTime> CatalogClock::lease_now(Tx& tx) {
  CAIRN_TRY(Rows rows, tx.query("select lease_us from catalog_clock where id = 1"));
  return LeaseTime{rows.at(0).integer(0)};
}

Result<CatalogClock::Stamp> CatalogClock::stamp(Tx& tx) {
  CAIRN_TRY(Time clock, raw(tx));
  CAIRN_TRY(Rows rows, tx.query("select now_us, raw_us, lease_us from catalog_clock where id = 1"));
  Time stored_now = rows.at(0).time(0);
  Time stored_raw = rows.at(0).time(1);
  Stamp stamp;
  stamp.lease_now = LeaseTime{rows.at(0).integer(2)};
  if (stored_raw.us == 0) stored_raw = clock;  // the first stamp of all
  Duration passed = clock - stored_raw;
  if (passed >= Duration(0) && passed <= kGapMax) {
    stamp.lease_now = stamp.lease_now + passed;
  } else {
    stamp.paused = std::max(passed, Duration(0));
  }
  // After a step back others may have been told times up to one gap beyond the last stamp.
  if (passed < Duration(0)) stored_now = stored_now + kGapMax;
  stamp.now = never_back(std::max(stored_now, clock));
  CAIRN_TRY(int64_t written, tx.update("update catalog_clock set now_us = ?1, raw_us = ?2, lease_us = ?3,"
                                       " paused_us = paused_us + ?4 where id = 1",
                                       {stamp.now.us, clock.us, stamp.lease_now.us, stamp.paused.count()}));
  if (written != 1) return Error(Code::kDataCorrupt, "the catalog has no clock row");
  return stamp;
}

Result<CatalogClock::Stamp> CatalogClock::stamp(Db& db, const Deadline& deadline) {
  return db.transact([&](Tx& tx) { return stamp(tx); }, deadline);
}

}  // namespace cairn::catalog
