// Writes one shard (docs/formats/datatrove-shards.md). Files grow under temporary names; `finish` syncs and renames them, the
// metadata last, so that a shard with metadata is complete and durable. A writer that is dropped before leaves nothing behind.
// Memory is bounded. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "codec/bytes.h"
#include "os/file_system.h"

namespace cairn::dataset {

class ShardWriter {
 public:
  // `path` ends in ".ds"; file_exists when a shard has that name. Temporary files of a writer that died are replaced.
  // REQUIRES: token_size is 2 or 4.
  static Result<std::unique_ptr<ShardWriter>> create(os::FileSystem& files, const std::string& path, uint32_t token_size,
                                                     std::string tokenizer_name);
  ~ShardWriter();

  // One document, its separator included. data_invalid when an id does not fit the token size.
  Status append(std::span<const uint32_t> ids);
  uint64_t tokens() const { return tokens_; }
  uint64_t documents() const { return documents_; }
  // REQUIRES: called once, and nothing appended after.
  Status finish();

 private:
  struct File {
    std::string path;
    std::unique_ptr<os::WritableFile> file;
    codec::Bytes buffer;
  };
  ShardWriter(os::FileSystem& files, std::string path, uint32_t token_size, std::string tokenizer_name);
  Status start(File& file);
  static Status flush(File& file);
  Status seal(File& file);
  Error does_not_fit(std::span<const uint32_t> ids) const;

  os::FileSystem& files_;
  std::string path_;
  uint32_t token_size_;
  std::string tokenizer_name_;
  File ids_, index_;
  uint64_t tokens_ = 0, documents_ = 0;
};

}  // namespace cairn::dataset
