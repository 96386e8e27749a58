#include "object/directory_store.h"

#include <algorithm>
#include <optional>

#include "base/log.h"
#include "codec/hex.h"
#include "object/range.h"

namespace cairn::object {
namespace {

constexpr uint32_t kFileMode = 0600;
constexpr uint32_t kFolderMode = 0700;
constexpr const char* kTemporaryFolder = "tmp";
constexpr size_t kTemporaryPerRound = 1'000;
// Folders remembered as made; beyond it they are looked up again.
constexpr size_t kKnownFoldersMax = 100'000;

class DirectoryReader final : public ObjectReader {
 public:
  DirectoryReader(std::unique_ptr<os::ReadableFile> file, uint64_t size) : file_(std::move(file)), size_(size) {}
  uint64_t size() const override { return size_; }
  Result<size_t> read_at(uint64_t offset, std::span<uint8_t> out) override { return file_->read_at(offset, out); }
  int native_fd() const override { return file_->native_fd(); }

 private:
  std::unique_ptr<os::ReadableFile> file_;
  uint64_t size_;
};

}  // namespace

class DirectoryWriter final : public ObjectWriter {
 public:
  DirectoryWriter(DirectoryStore& store, ObjectKey key, uint64_t size, std::string temporary,
                  std::unique_ptr<os::WritableFile> file)
      : store_(store), key_(std::move(key)), size_(size), temporary_(std::move(temporary)), file_(std::move(file)) {}
  ~DirectoryWriter() override { drop(); }

  Status append(ByteView data) override {
    if (first_error_) return *first_error_;
    if (data.size() > size_ - written_) return remember(wrong_size(key_, size_, written_ + data.size()));
    Status wrote = file_->write(data);
    if (!wrote) return remember(store_.explain(wrote.error(), key_, "write"));
    written_ += data.size();
    return ok();
  }

  Status commit() override {
    if (first_error_) return *first_error_;
    Status done = written_ == size_ ? publish() : Status(wrong_size(key_, size_, written_));
    if (!done) return remember(done.error());
    drop();
    first_error_ = Error(Code::kInternal, "object " + key_.text() + " was committed before");
    return ok();
  }

 private:
  // Bytes, then the name, then the folder that holds the name: each is on disk before the next begins.
  Status publish() {
    auto explained = [&](Status status) -> Status {
      if (status) return status;
      return store_.explain(status.error(), key_, "write");
    };
    CAIRN_CHECK_OK(explained(file_->sync()));
    CAIRN_CHECK_OK(explained(file_->close()));
    std::string path = store_.path_of(key_);
    CAIRN_CHECK_OK(explained(store_.make_folder_of(path)));
    Status linked = store_.files_.link_no_replace(temporary_, path);
    if (!linked && linked.error().code() == Code::kFileExists) {
      // The one that was first may not have come as far as the sync: whoever reads our answer relies on the object.
      CAIRN_CHECK_OK(explained(store_.make_name_durable(path)));
      return object_exists(key_);
    }
    CAIRN_CHECK_OK(explained(std::move(linked)));
    return explained(store_.make_name_durable(path));
  }
  Status remember(Error error) {
    first_error_ = error;
    drop();
    return error;
  }
  void drop() {
    if (temporary_.empty()) return;
    file_.reset();
    static_cast<void>(store_.files_.remove(temporary_).has_value());
    temporary_.clear();
  }

  DirectoryStore& store_;
  ObjectKey key_;
  uint64_t size_;
  uint64_t written_ = 0;
  std::string temporary_;
  std::unique_ptr<os::WritableFile> file_;
  std::optional<Error> first_error_;
};

Result<std::unique_ptr<DirectoryStore>> DirectoryStore::open_root(os::FileSystem& files, const std::string& root,
                                                                  Random& random) {
  std::string trimmed = root;
  while (trimmed.size() > 1 && trimmed.back() == '/') trimmed.pop_back();
  std::unique_ptr<DirectoryStore> store(new DirectoryStore(files, trimmed, random));
  Status made = files.make_directories(trimmed + "/" + kTemporaryFolder, kFolderMode);
  if (!made) return std::move(made).error().while_doing("opening the object store " + trimmed);
  Status cleaned = store->remove_stale_files();
  if (!cleaned) return std::move(cleaned).error().while_doing("cleaning the object store " + trimmed);
  return store;
}

Status DirectoryStore::remove_stale_files() {
  std::string folder = root_ + "/" + kTemporaryFolder;
  std::string after;
  size_t removed = 0;
  for (;;) {
    CAIRN_TRY(std::vector<os::DirectoryEntry> entries, files_.list(folder, after, kTemporaryPerRound));
    if (entries.empty()) break;
    for (const os::DirectoryEntry& entry : entries) {
      if (entry.type != os::FileType::kFile) continue;
      CAIRN_CHECK_OK(files_.remove(folder + "/" + entry.name));
      ++removed;
    }
    const os::DirectoryEntry& last = entries.back();
    after = last.type == os::FileType::kDirectory ? last.name + "/" : last.name;
  }
  if (removed > 0) log_info("removed {} unfinished objects from {}", removed, folder);
  return ok();
}

Status DirectoryStore::make_folder_of(const std::string& path) {
  std::string folder = os::parent_path(path);
  {
    std::lock_guard lock(mutex_);
    if (known_folders_.count(folder) != 0) return ok();
  }
  // Made by an earlier process, a folder may not have been synced into its parent: sync every level once.
  CAIRN_CHECK_OK(files_.make_directories(folder, kFolderMode));
  for (std::string level = folder; level.size() > root_.size();) {
    level = os::parent_path(level);
    CAIRN_CHECK_OK(files_.sync_directory(level));
  }
  std::lock_guard lock(mutex_);
  if (known_folders_.size() >= kKnownFoldersMax) known_folders_.clear();
  known_folders_.insert(folder);
  return ok();
}

Status DirectoryStore::make_name_durable(const std::string& path) {
  CAIRN_CHECK_OK(make_folder_of(path));
  return files_.sync_directory(os::parent_path(path));
}

Error DirectoryStore::explain(Error error, const ObjectKey& key, const char* verb) const {
  if (error.code() == Code::kFileNotFound) return object_not_found(key);
  std::string what = std::string(verb) + " object " + key.text() + " in " + root_ + ": " + error.message();
  if (error.code() == Code::kNoSpaceLeft) {
    return Error(Code::kNoSpaceLeft, "the disk of the object store " + root_ + " is full: " + what,
                 "free space there, or remove volumes with `cairn volumes delete NAME --purge`");
  }
  // What stands wrong below the store is the operator's to mend, no conflict of the person who asks.
  bool wrong_inside = error.code() == Code::kFileUnreadable || error.code() == Code::kPathTypeConflict;
  return Error(wrong_inside ? Code::kIoError : error.code(), what, error.hint());
}

Result<std::unique_ptr<ObjectWriter>> DirectoryStore::create(const ObjectKey& key, uint64_t size,
                                                             const Deadline& deadline) {
  CAIRN_CHECK_OK(deadline.check());
  Result<bool> taken = files_.exists(path_of(key));
  if (!taken) return explain(taken.error(), key, "look for");
  if (*taken) {
    Status durable = make_name_durable(path_of(key));
    return durable ? object_exists(key) : explain(durable.error(), key, "write");
  }
  uint8_t name[16];
  random_.fill(name);
  std::string temporary = root_ + "/" + kTemporaryFolder + "/" + codec::hex_encode(ByteView(name));
  Result<std::unique_ptr<os::WritableFile>> file = files_.create_exclusive(temporary, kFileMode);
  if (!file) {
    // An absent folder is a broken store, not an absent object.
    Error error = file.error();
    if (error.code() == Code::kFileNotFound)
      return Error(Code::kIoError, "the object store " + root_ + " is gone: " + error.message());
    return explain(std::move(error), key, "write");
  }
  return std::unique_ptr<ObjectWriter>(
      std::make_unique<DirectoryWriter>(*this, key, size, temporary, *std::move(file)));
}

Result<std::unique_ptr<ObjectReader>> DirectoryStore::open(const ObjectKey& key, const Deadline& deadline) {
  CAIRN_CHECK_OK(deadline.check());
  Result<std::unique_ptr<os::ReadableFile>> file = files_.open_read(path_of(key));
  if (!file) return explain(file.error(), key, "open");
  Result<uint64_t> size = (*file)->size();
  if (!size) return explain(size.error(), key, "open");
  return std::unique_ptr<ObjectReader>(std::make_unique<DirectoryReader>(*std::move(file), *size));
}

Status DirectoryStore::put_if_absent(const ObjectKey& key, ByteView data, const Deadline& deadline) {
  CAIRN_TRY(std::unique_ptr<ObjectWriter> writer, create(key, data.size(), deadline));
  CAIRN_CHECK_OK(writer->append(data));
  return writer->commit();
}

Result<Bytes> DirectoryStore::get(const ObjectKey& key, uint64_t offset, uint64_t length, const Deadline& deadline) {
  CAIRN_TRY(std::unique_ptr<ObjectReader> reader, open(key, deadline));
  CAIRN_CHECK_OK(check_range(key, reader->size(), offset, length));
  Bytes bytes(length);
  Status read = reader->read_exactly(offset, bytes);
  if (!read) return explain(read.error(), key, "read");
  return bytes;
}

Result<ObjectInfo> DirectoryStore::head(const ObjectKey& key, const Deadline& deadline) {
  CAIRN_CHECK_OK(deadline.check());
  Result<os::FileStat> stat = files_.stat(path_of(key));
  if (!stat) return explain(stat.error(), key, "look for");
  if (stat->type != os::FileType::kFile) return object_not_found(key);
  Status durable = make_name_durable(path_of(key));
  if (!durable) return explain(durable.error(), key, "look for");
  ObjectInfo info;
  info.size = stat->size;
  return info;
}

Status DirectoryStore::remove(const ObjectKey& key, const Deadline& deadline) {
  CAIRN_CHECK_OK(deadline.check());
  std::string path = path_of(key);
  Status removed = files_.remove(path);
  if (!removed && removed.error().code() == Code::kFileNotFound) return ok();
  if (!removed) return explain(removed.error(), key, "remove");
  // The row goes next: an object that came back would belong to nobody.
  Status synced = files_.sync_directory(os::parent_path(path));
  if (!synced) return explain(synced.error(), key, "remove");
  return ok();
}

}  // namespace cairn::object
