// The world of the storage simulator (storage_simulator.h): its servers, writers, store and time, the things that may
// happen in it and what must hold after each. Every method that is an act returns an error only for a violation; what
// may go wrong in a world with faults is taken as it comes. Private to testing/.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "catalog/snapshots.h"
#include "object/memory_store.h"
#include "testing/faulty_object_store.h"
#include "testing/storage_client.h"
#include "testing/storage_simulator.h"
#include "volume/gc.h"
#include "volume/history.h"
#include "volume/publish.h"
#include "volume/volumes.h"

namespace cairn::testing {

// Passes calls on and remembers what was removed.
class RecordingStore final : public object::ObjectStore {
 public:
  explicit RecordingStore(object::ObjectStore& inner) : inner_(inner) {}
  Result<std::unique_ptr<object::ObjectWriter>> create(const object::ObjectKey& key, uint64_t size,
                                                       const Deadline& d) override {
    return inner_.create(key, size, d);
  }
  Result<std::unique_ptr<object::ObjectReader>> open(const object::ObjectKey& key, const Deadline& d) override {
    return inner_.open(key, d);
  }
  Status put_if_absent(const object::ObjectKey& key, object::ByteView data, const Deadline& d) override {
    return inner_.put_if_absent(key, data, d);
  }
  Result<object::Bytes> get(const object::ObjectKey& key, uint64_t offset, uint64_t length,
                            const Deadline& d) override {
    return inner_.get(key, offset, length, d);
  }
  Result<object::ObjectInfo> head(const object::ObjectKey& key, const Deadline& d) override {
    return inner_.head(key, d);
  }
  Status remove(const object::ObjectKey& key, const Deadline& d) override {
    removed.push_back(key);
    return inner_.remove(key, d);
  }
  Result<object::ListPage> list(const std::string& prefix, const std::string& after, size_t limit,
                                const Deadline& d) override {
    return inner_.list(prefix, after, limit, d);
  }

  std::vector<object::ObjectKey> removed;

 private:
  object::ObjectStore& inner_;
};

class StorageWorld {
 public:
  StorageWorld(const SimulatorOptions& options, SimulatorReport& report, std::string catalog_path);
  ~StorageWorld();

  Status start();
  // Faults off: every operation must come to an end, and what is kept must read whole.
  Status finish();
  Status check();
  uint64_t below(uint64_t bound) { return dice_.below(bound); }

  Status open_upload();
  Status change();
  Status send_late();
  Status publish();
  Status resume();
  Status remove();
  Status heartbeat();
  Status close();
  Status pin_or_unpin();
  Status retain();
  Status mark();
  Status condemn();
  Status sweep();
  Status delete_late();
  Status restart();
  Status pass_seconds();
  Status pass_minutes();
  Status outage();

 private:
  struct Writer {
    volume::OpenUpload upload;
    int volume = 0;
    bool run = false;
    Changes changes;                    // not yet published
    std::vector<BuiltDataPack> unsent;  // promised, and not sent or not registered
    std::optional<volume::PublishRequest> in_flight;
  };
  struct Volume {
    volume::VolumeInfo info;
    // What clients remember of where contents lie, however old.
    std::map<std::string, store::ChunkRef> remembered;
    std::map<int64_t, Contents> model;
    std::map<UploadId, Contents> aside;
    int64_t newest = 0;
    int64_t fence = 0;
  };
  struct Server;

  bool chance(int in_a_hundred) { return dice_.below(100) < static_cast<uint64_t>(in_a_hundred); }
  Deadline soon() { return Deadline::after(seconds(2), clock_); }
  Writer* some_writer();
  void drop(const Writer* writer);
  Status settle(Writer& writer, const Result<volume::Publication>& result);
  Status change_some(Writer& writer);
  // Sends the contents of all pending puts that have no chunk.
  Status send_pending(Writer& writer);
  Status check_volume(Volume& volume);
  Status check_new(Volume& volume, const catalog::SnapshotRow& row);
  Status check_contents(const Volume& volume, int64_t number);
  Status stamp();

  SimulatorOptions options_;
  SimulatorReport& report_;
  std::string path_;
  ManualClock clock_;
  SeededRandom dice_;
  SeededRandom ids_;
  object::MemoryStore pristine_;
  FaultyObjectStore faulty_;
  RecordingStore recording_;
  std::unique_ptr<catalog::Db> db_;
  std::unique_ptr<Server> server_;
  UserId users_[2];
  std::vector<Volume> volumes_;
  std::vector<std::unique_ptr<Writer>> writers_;
  std::vector<volume::Mark> marks_;
  std::vector<PinId> pins_;
  std::map<std::string, Changes> meant_;           // by request id
  std::map<std::string, std::set<PackId>> named_;  // by root's stored form
  int steps_ = 0;
};

}  // namespace cairn::testing
