// A seeded simulator of storage: several writers (uploads and runs), several servers' worth of background work, a
// faulty object store, virtual time. The code under test is volume's own over a real SQLite catalog; the store is
// memory.
//
// Each step does one random thing: open, take over, send, register late, reuse chunks remembered from long ago, publish
// (dying at a random step of it), resume, remove, heartbeat, close, pin, read, retain, mark, condemn by an old mark,
// sweep, delete again what was deleted before (a stalled server's late DELETE), restart, let time pass, let the server
// be down.
//
// After every step it checks: every pack that a kept root names is in the store; at most one writer per volume, with
// fences that only grow; each new snapshot holds exactly what its writer meant, and now and then any kept one. At the
// end faults are switched off and everything must finish.
//
// With `touch` off a publication does not touch the packs it relies on (F1): the canary that a loss is found.
#pragma once

#include <cstdint>
#include <string>

namespace cairn::testing {

struct SimulatorOptions {
  uint64_t seed = 1;
  int steps = 400;
  bool touch = true;
  bool faults = true;
};

struct SimulatorReport {
  // Empty, or what was violated at which step.
  std::string violation;
  int publications = 0;
  int side_publications = 0;
  int takeovers = 0;
  int crashes = 0;
  int chunks_gone = 0;
  int packs_deleted = 0;
  int late_deletes = 0;
  int snapshots_retired = 0;
  int reads = 0;

  std::string to_string() const;
};

SimulatorReport simulate_storage(const SimulatorOptions& options);

}  // namespace cairn::testing
