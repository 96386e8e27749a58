// A FileSystem in memory that lies as disks do: it keeps what was synced apart from what was only written, so that crash() shows
// what a power loss would leave. Bytes of a file are durable after sync(), names of a folder after sync_directory(). Without
// random numbers crash() drops everything unsynced; with them it keeps a part: for each folder the first so many of its pending
// changes, for each file a prefix of what changed, sometimes followed by zeros of the right length.
//
// Faults: fail the nth operation from now; switch the power off at the nth (it and all later ones fail, a write half done, until
// crash()); a capacity above which writes give no_space_left. After crash() old handles fail. Thread-safe.
#pragma once

#include <map>
#include <mutex>
#include <optional>

#include "base/random.h"
#include "os/file_system.h"

namespace cairn::os {

class MemoryFileSystem final : public FileSystem {
 public:
  MemoryFileSystem();
  ~MemoryFileSystem() override;

  Result<std::unique_ptr<WritableFile>> create_exclusive(const std::string& path, uint32_t mode) override;
  Result<std::unique_ptr<WritableFile>> open_append(const std::string& path, uint32_t mode) override;
  Result<std::unique_ptr<ReadableFile>> open_read(const std::string& path) override;
  Status link_no_replace(const std::string& from, const std::string& to) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status remove(const std::string& path) override;
  Status remove_directory(const std::string& path) override;
  Status make_directory(const std::string& path, uint32_t mode) override;
  Status sync_directory(const std::string& path) override;
  Result<FileStat> stat(const std::string& path) override;
  Result<std::vector<DirectoryEntry>> list(const std::string& path, const std::string& after = {},
                                           size_t limit = SIZE_MAX) override;

  // Power loss and restart. Drops everything unsynced, or with `random` an arbitrary part of it. Faults are cleared.
  void crash(Random* random = nullptr);
  // The `n`th operation from now (0 = the next) fails once with `error`.
  void fail_operation(uint64_t n, Error error);
  // The `n`th operation from now and every later one fails until crash(); a write that meets it is half done.
  void power_off_at(uint64_t n);
  bool power_is_off() const;
  // Operations so far: for loops over every point at which power can fail.
  uint64_t operations() const;
  // Writes that would take the files above this many bytes fail with no_space_left.
  void set_capacity(uint64_t bytes);
  uint64_t used_bytes() const;

 private:
  friend class MemoryWritableFile;
  friend class MemoryReadableFile;
  struct Node;
  struct Place;
  struct State;

  std::unique_ptr<State> state_;
};

}  // namespace cairn::os
