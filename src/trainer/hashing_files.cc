#include "trainer/hashing_files.h"

#include <vector>

namespace cairn::trainer {
namespace {

constexpr size_t kBlockBytes = 1024 * 1024;

class HashingFile final : public os::WritableFile {
 public:
  HashingFile(std::unique_ptr<os::WritableFile> below, HashingFiles::Written& result) : below_(std::move(below)), result_(result) {}
  ~HashingFile() override { result_.sha256 = hash_.finish(); }

  Status write(os::ByteView data) override {
    CAIRN_CHECK_OK(below_->write(data));
    hash_.update(data);
    result_.size += data.size();
    return ok();
  }
  Status sync() override { return below_->sync(); }
  Status close() override { return below_->close(); }

 private:
  std::unique_ptr<os::WritableFile> below_;
  HashingFiles::Written& result_;
  codec::Sha256 hash_;
};

}  // namespace

Result<std::unique_ptr<os::WritableFile>> HashingFiles::create_exclusive(const std::string& path, uint32_t mode) {
  CAIRN_TRY(std::unique_ptr<os::WritableFile> file, below_.create_exclusive(path, mode));
  Written& result = written_[path];
  result = Written{};
  return std::unique_ptr<os::WritableFile>(std::make_unique<HashingFile>(std::move(file), result));
}

Result<codec::Digest> hash_file(os::FileSystem& files, const std::string& path) {
  CAIRN_TRY(std::unique_ptr<os::ReadableFile> file, files.open_read(path));
  codec::Sha256 hash;
  std::vector<uint8_t> block(kBlockBytes);
  for (uint64_t offset = 0;;) {
    CAIRN_TRY(size_t got, file->read_at(offset, block));
    hash.update(os::ByteView(block).first(got));
    offset += got;
    if (got < block.size()) return hash.finish();
  }
}

}  // namespace cairn::trainer
