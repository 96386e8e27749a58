// Time as the catalog tells it, in three kinds.
//
// `now` is wall-clock time for people: max(stored, clock), so it does not run back, except from a jump that is not
// believed yet (below). On PostgreSQL the clock is the database server's, so that several servers agree; on SQLite it is
// the host's. A clock other than system_clock() (a test's) is used as given on both.
//
// `LeaseTime` is time during which servers were there: it moves only when a server stamps (every kStampEvery) and counts
// the time between two stamps of at most kGapMax. A longer gap (no server ran, the machine slept) or a clock that
// jumped forward or back counts nothing. Everything that may be taken away when its holder is silent (leases, task leases)
// stores its expiry in lease time, in a column that ends in _lease_us. So an outage needs no repair: nothing expires while
// nobody could have renewed it, and taking something is one conditional statement:
//     update … set … where … and expires_lease_us <= (select lease_us from catalog_clock)
//
// `removal_now` is for what is removed because of its age and could not be brought back: history, side snapshots, the
// trash, unfinished uploads, condemned packs. It is `now` as last stamped, but a jump forward of more than kJumpMax
// counts only after servers ran with it for kHold of lease time: a host that boots with a wrong clock removes nothing
// before somebody sets it right, and then `now` goes back with it.
//
// Thread-safe.
#pragma once

#include <compare>
#include <cstdint>
#include <mutex>

#include "catalog/db.h"

namespace cairn::catalog {

struct LeaseTime {
  int64_t us = 0;

  auto operator<=>(const LeaseTime&) const = default;
  LeaseTime operator+(Duration d) const { return LeaseTime{us + d.count()}; }
  LeaseTime operator-(Duration d) const { return LeaseTime{us - d.count()}; }
  Duration operator-(LeaseTime other) const { return Duration(us - other.us); }
};

// Lease time as an SQL expression.
inline constexpr char kLeaseNowSql[] = "(select lease_us from catalog_clock)";

class CatalogClock {
 public:
  static constexpr Duration kStampEvery = seconds(10);
  static constexpr Duration kGapMax = seconds(30);
  static constexpr Duration kJumpMax = hours(1);
  static constexpr Duration kHold = hours(4);

  explicit CatalogClock(Clock& clock = system_clock()) : clock_(&clock) {}

  Result<Time> now(Tx& tx);
  // At most kStampEvery behind now(), or more while a jump is not believed.
  Result<Time> removal_now(Tx& tx);
  Result<LeaseTime> lease_now(Tx& tx);

  struct Stamp {
    Time now;
    LeaseTime lease_now;
    Duration paused{0};  // what this stamp did not count: a gap or a jump
    Duration held{0};    // how far removal_now is behind because of a jump
    bool taken_back = false;  // the jump was undone: `now` is lower than it was
  };
  // Each server calls it once before it serves anything and then every kStampEvery.
  Result<Stamp> stamp(Db& db, const Deadline& deadline = Deadline::never());
  // The same inside a transaction.
  Result<Stamp> stamp(Tx& tx);

  // When `at` will be, told in wall-clock time if servers stay up: for messages, never for decisions.
  static Time wall_estimate(Time now, LeaseTime lease_now, LeaseTime at) { return now + (at - lease_now); }

 private:
  Result<Time> raw(Tx& tx);
  Time never_back(Time time);

  Clock* clock_;
  std::mutex mutex_;
  int64_t highest_us_ = 0;  // of the times told
};

}  // namespace cairn::catalog
