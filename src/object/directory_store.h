// An ObjectStore in a directory: the object `s/ab/p/cd` is the file <root>/s/ab/p/cd. A put writes <root>/tmp/<random>,
// syncs it, links it to its name (which never replaces) and syncs the folder, so that a power loss leaves an object
// whole or not at all, and a put that returned ok always. So does an answer of object_exists or of head: what another
// put linked but failed to sync, or a killed process left, is made durable before it is told. One server at a time:
// several on one network file system are refused by the server.
//
// Thread-safe. A reader holds the open file: it reads on after the object is removed, and offers native_fd.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "base/random.h"
#include "object/object_store.h"
#include "os/file_system.h"

namespace cairn::object {

class DirectoryStore final : public ObjectStore {
 public:
  // Creates `root` where needed and removes what unfinished puts of an earlier process left in <root>/tmp. `files` and
  // `random` must outlive the store.
  static Result<std::unique_ptr<DirectoryStore>> open_root(os::FileSystem& files, const std::string& root,
                                                           Random& random = system_random());

  Result<std::unique_ptr<ObjectWriter>> create(const ObjectKey& key, uint64_t size, const Deadline& deadline) override;
  Result<std::unique_ptr<ObjectReader>> open(const ObjectKey& key, const Deadline& deadline) override;
  Status put_if_absent(const ObjectKey& key, ByteView data, const Deadline& deadline) override;
  Result<Bytes> get(const ObjectKey& key, uint64_t offset, uint64_t length, const Deadline& deadline) override;
  Result<ObjectInfo> head(const ObjectKey& key, const Deadline& deadline) override;
  Status remove(const ObjectKey& key, const Deadline& deadline) override;
  Result<ListPage> list(const std::string& prefix, const std::string& after, size_t limit,
                        const Deadline& deadline) override;

  const std::string& root() const { return root_; }

 private:
  friend class DirectoryWriter;
  DirectoryStore(os::FileSystem& files, std::string root, Random& random)
      : files_(files), root_(std::move(root)), random_(random) {}

  std::string path_of(const ObjectKey& key) const { return root_ + "/" + key.text(); }
  Status remove_stale_files();
  Status make_folder_of(const std::string& path);
  // The name `path` and the folders above it are on disk.
  Status make_name_durable(const std::string& path);
  Error explain(Error error, const ObjectKey& key, const char* verb) const;

  os::FileSystem& files_;
  std::string root_;
  Random& random_;
  std::mutex mutex_;
  std::set<std::string> known_folders_;  // made and synced by this process
};

}  // namespace cairn::object
