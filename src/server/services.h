// What the server's handlers and background tasks are built from: the domain modules, injected. All by reference; everything
// named here outlives them.
#pragma once

#include "base/clock.h"
#include "base/random.h"
#include "catalog/catalog_clock.h"
#include "catalog/db.h"
#include "identity/identity.h"
#include "server/signed_urls.h"
#include "server/work_handlers.h"
#include "volume/gc.h"
#include "volume/history.h"
#include "volume/leases.h"
#include "volume/publish.h"
#include "volume/reads.h"
#include "volume/uploads.h"
#include "volume/volumes.h"

namespace cairn::server {

struct Services {
  Clock& clock;
  Random& random;
  catalog::Db& db;
  catalog::CatalogClock& catalog_clock;
  object::ObjectStore& objects;
  identity::Identity& identity;
  volume::Context& storage;
  volume::Volumes& volumes;
  volume::Leases& leases;
  volume::Uploads& uploads;
  volume::Publisher& publisher;
  volume::Reads& reads;
  volume::Retention& retention;
  volume::GarbageCollector& collector;
  WorkHandlers& work;
  const SignedUrls& urls;
  volume::HistoryPolicy default_history;  // of new volumes
};

}  // namespace cairn::server
