// A whole server in one object: opens catalog and store, makes sure of its keys and the admin token, wires the domain modules,
// starts the background tasks and listens. `main` and the tests use it alike.
//
// In `data_dir` (mode 0700): server.lock (one server of a data folder), url.key (0600, signs URLs; not below the store),
// admin-token (0600), and, unless set otherwise, catalog.db and store/.
//
// The store's folder has a lock of its own (LOCK, which is no object's key): one server of a store, whatever its data folder.
//
// stop() refuses new requests, lets running ones finish within the drain time, and ends the tasks. Thread-safe.
#pragma once

#include <memory>

#include "base/clock.h"
#include "base/deadline.h"
#include "base/random.h"
#include "base/result.h"
#include "config/server_settings.h"

namespace cairn::server {

class Instance {
 public:
  // Returns once the port is open. The clock and random generator outlive the instance.
  // `restored`: the catalog is a backup, older than the store: fences and snapshot numbers go past what was given out since, all
  // leases end, and no garbage is collected (volume/epochs.h).
  static Result<std::unique_ptr<Instance>> start(const config::ServerSettings& settings, Clock& clock = system_clock(),
                                                 Random& random = system_random(), bool restored = false);
  ~Instance();

  uint16_t port() const;
  const std::string& admin_token() const;
  void stop(Duration drain);
  // Runs every background task once, in this thread: for tests.
  Status run_tasks_once();

 private:
  struct Impl;
  explicit Instance(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Reads the file, serves until `stop`, drains.
Status serve(const std::string& config_file, const CancelToken& stop, bool restored = false);

}  // namespace cairn::server
