// Reads files, cuts them, hashes every byte once and hands the chunks to a PackSender. A file of at most 4 MiB is read and cut
// by the calling thread; a longer one (or a stream) by a reader thread that runs ahead with aligned blocks (O_DIRECT when the
// file is not in the page cache), the calling thread cutting and a shared group of threads hashing and packing.
//
// chunk_file is thread-safe: each caller brings its own SmallBuffer. At most `large_at_once` long files are under way.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/deadline.h"
#include "os/tree.h"
#include "store/chunker.h"
#include "transfer/channel.h"
#include "transfer/pack_sender.h"
#include "transfer/ref_list.h"

namespace cairn::transfer {

class FileChunker {
 public:
  static constexpr uint64_t kSmallBytesMax = 4 << 20;
  // Chunks of the base's file at the same path: used when the table could not hold them.
  using Hint = std::unordered_map<codec::Digest, store::ChunkRef>;

  struct Buffer {
    std::vector<uint8_t> bytes;
  };

  FileChunker(PackSender& sender, unsigned hashers, unsigned large_at_once, Progress& progress, const Deadline& deadline);
  ~FileChunker();

  // All bytes from the start to the end of the file; answers how many. `expected_size` chooses the way; nothing: a stream
  // (read from where it stands).
  Result<uint64_t> chunk_file(int fd, std::optional<uint64_t> expected_size, const std::string& name, const Hint* hint,
                              RefList& refs, Buffer& buffer);

 private:
  struct Block;
  struct BlockPool;
  struct Large;
  struct Piece;

  Result<uint64_t> chunk_small(int fd, const std::string& name, const Hint* hint, RefList& refs, Buffer& buffer);
  Result<uint64_t> chunk_large(int fd, bool stream, const std::string& name, const Hint* hint, RefList& refs);
  Result<uint64_t> cut_blocks(Large& large);
  Result<store::ChunkRef> place(codec::ByteView raw, const Hint* hint);
  void hash_pieces();

  PackSender& sender_;
  Progress& progress_;
  const Deadline deadline_;
  const store::Chunker chunker_{};
  std::unique_ptr<BlockPool> pool_;
  std::unique_ptr<Channel<Piece>> pieces_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable large_done_;
  unsigned large_free_;
};

}  // namespace cairn::transfer
