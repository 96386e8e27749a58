#include "server/instance.h"

#include <unistd.h>

#include "base/log.h"
#include "catalog/migrations.h"
#include "codec/hex.h"
#include "object/directory_store.h"
#include "os/file_system.h"
#include "os/lock_file.h"
#include "server/app.h"
#include "server/tasks.h"
#include "volume/epochs.h"

namespace cairn::server {
namespace {

constexpr char kAdmin[] = "admin";
constexpr char kAdminTokenLabel[] = "cairn up";
constexpr size_t kSmallFileBytesMax = 1 << 20;
constexpr char kStoreLockFile[] = "LOCK";
constexpr Duration kDrain = seconds(30);

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

Result<std::string> read_if_there(os::FileSystem& files, const std::string& path) {
  CAIRN_TRY(bool there, files.exists(path));
  if (!there) return std::string();
  CAIRN_TRY(std::string text, files.read_file(path, kSmallFileBytesMax));
  return trimmed(std::move(text));
}

Status write_secret(os::FileSystem& files, const std::string& path, const std::string& text) {
  std::string line = text + "\n";
  return files.write_file_atomic(path, codec::as_bytes(line), 0600);
}

// The key that signs URLs: made once. Losing it only ends the URLs that are out.
Result<codec::Bytes> url_secret(os::FileSystem& files, const std::string& path, Random& random) {
  CAIRN_TRY(std::string text, read_if_there(files, path));
  if (!text.empty()) {
    auto secret = codec::hex_decode(text);
    if (!secret || secret->size() != SignedUrls::kSecretBytes) {
      return Error(Code::kDataCorrupt, path + " is not a key of 64 hex digits", "remove it: the server makes a new one");
    }
    return *std::move(secret);
  }
  codec::Bytes secret(SignedUrls::kSecretBytes);
  random.fill(secret);
  CAIRN_CHECK_OK(write_secret(files, path, codec::hex_encode(codec::ByteView(secret))));
  return secret;
}

volume::Settings volume_settings(const config::ServerSettings& settings) {
  volume::Settings to;
  to.default_size_bytes = static_cast<int64_t>(settings.default_size_bytes);
  to.maximum_size_bytes = static_cast<int64_t>(settings.maximum_size_bytes);
  to.trash_time = settings.trash_time;
  to.gc_grace = settings.gc_grace;
  to.url_time = SignedUrls::kLife;
  to.put_time = ObjectRoutes::kPutTime;
  to.owner_quota_bytes = static_cast<int64_t>(settings.owner_quota_bytes);
  return to;
}

run::RunSettings run_settings(const config::ServerSettings& settings) {
  run::RunSettings to;
  to.engines.templates = settings.engines;
  to.engines.default_engine = settings.default_engine;
  to.log_lines_kept = settings.log_lines_per_run;
  return to;
}

void log_access(const http::AccessRecord& record) {
  log_info("{} {} status={} in={} out={} ms={:.1f} peer={}", record.method, record.path, record.status, record.bytes_received,
           record.bytes_sent, static_cast<double>(record.duration.count()) / 1000.0, record.peer);
}

}  // namespace

// In the order of construction: each member uses those above it.
struct Instance::Impl {
  struct Opened {
    os::LockFile lock;
    os::LockFile store_lock;
    std::unique_ptr<catalog::Db> db;
    std::unique_ptr<object::ObjectStore> objects;
    codec::Bytes url_secret;
    volume::HistoryPolicy history;
  };

  Impl(Opened opened, const config::ServerSettings& settings, Clock& clock, Random& random)
      : lock(std::move(opened.lock)),
        store_lock(std::move(opened.store_lock)),
        db(std::move(opened.db)),
        objects(std::move(opened.objects)),
        urls(std::move(opened.url_secret), clock),
        catalog_clock(clock),
        identity(*db, catalog_clock, random),
        storage{*db, *objects, clock, random, volume_settings(settings)},
        volumes(storage),
        leases(storage),
        uploads(storage),
        publisher(storage),
        reads(storage),
        retention(storage),
        collector(storage),
        run_context{storage, volumes, leases, uploads, reads, run_settings(settings)},
        work(run_context),
        services{clock,   random,    *db,   catalog_clock, *objects,  identity, storage, volumes, leases,
                 uploads, publisher, reads, retention,     collector, work,     urls, opened.history},
        app(services),
        tasks(services, TaskSettings{settings.gc_interval}) {
    volumes.add_usage_probe(&run::Runs::uses);
  }

  os::LockFile lock;
  os::LockFile store_lock;
  std::unique_ptr<catalog::Db> db;
  std::unique_ptr<object::ObjectStore> objects;
  SignedUrls urls;
  catalog::CatalogClock catalog_clock;
  identity::Identity identity;
  volume::Context storage;
  volume::Volumes volumes;
  volume::Leases leases;
  volume::Uploads uploads;
  volume::Publisher publisher;
  volume::Reads reads;
  volume::Retention retention;
  volume::GarbageCollector collector;
  run::RunContext run_context;
  WorkHandlers work;
  Services services;
  App app;
  Tasks tasks;
  std::string admin_token;
  std::unique_ptr<http::Server> server;
};

Instance::Instance(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Instance::~Instance() { stop(Duration(0)); }

uint16_t Instance::port() const { return impl_->server->local_port(); }

const std::string& Instance::admin_token() const { return impl_->admin_token; }

void Instance::stop(Duration drain) {
  impl_->server->stop(drain);
  impl_->tasks.stop();
}

Status Instance::run_tasks_once() { return impl_->tasks.run_all_once(); }

Result<std::unique_ptr<Instance>> Instance::start(const config::ServerSettings& settings, Clock& clock, Random& random,
                                                  bool restored) {
  os::FileSystem& files = os::posix_file_system();
  const std::string& dir = settings.data_dir;
  CAIRN_CHECK_OK(files.make_directories(dir, 0700));
  Impl::Opened opened;
  const std::string holder = "cairn server, process " + std::to_string(getpid());
  CAIRN_TRY(opened.lock, os::LockFile::try_lock(dir + "/server.lock", holder));

  std::string catalog_url = settings.catalog.empty() ? "sqlite:" + dir + "/catalog.db" : settings.catalog;
  CAIRN_TRY(opened.db, catalog::Db::open(catalog_url));
  CAIRN_CHECK_OK(catalog::migrate(*opened.db, clock));
  std::string store_dir = settings.store.empty() ? dir + "/store" : settings.store;
  if (dir == store_dir || dir.starts_with(store_dir + "/")) {
    return Error(Code::kConfigInvalid, "data_dir " + dir + " lies in the store " + store_dir + ": keys must lie outside of it");
  }
  // Opening it removes what looks unfinished: to another server of the same store that would be its PUTs under way.
  CAIRN_CHECK_OK(files.make_directories(store_dir, 0700));
  auto store_lock = os::LockFile::try_lock(store_dir + "/" + kStoreLockFile, holder);
  if (!store_lock) return std::move(store_lock).error().while_doing("opening the store " + store_dir + ", which is for one server");
  opened.store_lock = *std::move(store_lock);
  CAIRN_TRY(opened.objects, object::DirectoryStore::open_root(files, store_dir, random));
  CAIRN_TRY(opened.url_secret, url_secret(files, dir + "/url.key", random));

  auto history = volume::HistoryPolicy::parse(settings.history);
  if (!history) return Error(Code::kConfigInvalid, "'history' in the server's configuration: " + history.error().message(), history.error().hint());
  opened.history = *history;
  bool only_server = opened.db->engine() == catalog::Engine::kSqlite;
  auto impl = std::make_unique<Impl>(std::move(opened), settings, clock, random);
  auto stamped = impl->catalog_clock.stamp(*impl->db);
  if (!stamped) return stamped.error();
  if (restored) {
    CAIRN_TRY(int64_t raised, volume::Epochs(impl->storage).raise_all(Deadline::after(minutes(10), clock)));
    log_warning("the catalog was restored: {} stores begin a new epoch, and their garbage is not collected", raised);
  }
  CAIRN_TRY(auto differing, volume::Epochs(impl->storage).check_all(Deadline::after(minutes(10), clock)));
  for (StoreId store : differing) {
    log_warning("store {} and the catalog do not agree (a restored backup?): its garbage is not collected until that is settled",
                store.hex());
  }
  if (only_server) CAIRN_CHECK_OK(impl->publisher.drop_claims());

  std::string token_file = dir + "/admin-token";
  CAIRN_TRY(std::string current, read_if_there(files, token_file));
  CAIRN_TRY(impl->admin_token, impl->identity.bootstrap_token(kAdmin, kAdminTokenLabel, identity::Scope::kFull, current));
  if (impl->admin_token != current) CAIRN_CHECK_OK(write_secret(files, token_file, impl->admin_token));

  CAIRN_CHECK_OK(impl->tasks.start());
  http::ServerSettings listen;
  listen.host = settings.host;
  listen.port = settings.port;
  listen.certificate_file = settings.certificate_file;
  listen.private_key_file = settings.private_key_file;
  listen.connections_max = static_cast<uint32_t>(settings.connections_max);
  CAIRN_TRY(impl->server, http::Server::start(listen, impl->app, log_access));
  http::Server* server = impl->server.get();
  impl->app.set_counters([server] { return server->counters(); });
  return std::unique_ptr<Instance>(new Instance(std::move(impl)));
}

Status serve(const std::string& config_file, const CancelToken& stop, bool restored) {
  CAIRN_TRY(std::string text, os::posix_file_system().read_file(config_file, kSmallFileBytesMax));
  CAIRN_TRY(config::ServerSettings settings, config::parse_server_settings(text, config_file));
  CAIRN_TRY(auto instance, Instance::start(settings, system_clock(), system_random(), restored));
  log_info("cairn server {} listens on {}:{}", CAIRN_VERSION, settings.host, instance->port());
  while (!stop.cancelled()) system_clock().sleep_for(milliseconds(50));
  log_info("stopping: running requests have {} s", kDrain.count() / 1'000'000);
  instance->stop(kDrain);
  return ok();
}

}  // namespace cairn::server
