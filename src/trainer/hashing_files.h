// A FileSystem that passes everything on and remembers size and SHA-256 of each file made through it, so that what was written
// need not be read again to be named in a marker. Files must be written by one thread at a time.
#pragma once

#include <map>
#include <string>

#include "codec/digest.h"
#include "os/file_system.h"

namespace cairn::trainer {

class HashingFiles final : public os::FileSystem {
 public:
  struct Written {
    uint64_t size = 0;
    codec::Digest sha256;
  };

  explicit HashingFiles(os::FileSystem& below) : below_(below) {}
  // Of files made by create_exclusive and closed, or destroyed, since.
  const std::map<std::string, Written>& written() const { return written_; }

  Result<std::unique_ptr<os::WritableFile>> create_exclusive(const std::string& path, uint32_t mode) override;
  Result<std::unique_ptr<os::WritableFile>> open_append(const std::string& path, uint32_t mode) override {
    return below_.open_append(path, mode);
  }
  Result<std::unique_ptr<os::ReadableFile>> open_read(const std::string& path) override { return below_.open_read(path); }
  Status link_no_replace(const std::string& from, const std::string& to) override { return below_.link_no_replace(from, to); }
  Status rename(const std::string& from, const std::string& to) override { return below_.rename(from, to); }
  Status remove(const std::string& path) override { return below_.remove(path); }
  Status remove_directory(const std::string& path) override { return below_.remove_directory(path); }
  Status make_directory(const std::string& path, uint32_t mode) override { return below_.make_directory(path, mode); }
  Status sync_directory(const std::string& path) override { return below_.sync_directory(path); }
  Result<os::FileStat> stat(const std::string& path) override { return below_.stat(path); }
  Result<std::vector<os::DirectoryEntry>> list(const std::string& path, const std::string& after, size_t limit) override {
    return below_.list(path, after, limit);
  }

 private:
  os::FileSystem& below_;
  std::map<std::string, Written> written_;
};

// Of the bytes of a file.
Result<codec::Digest> hash_file(os::FileSystem& files, const std::string& path);

}  // namespace cairn::trainer
