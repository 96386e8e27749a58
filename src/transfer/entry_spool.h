// A sequence of entries in a file, in path order, each with its chunks: the one on-disk form of plans, results, listings on
// their way and manifests. Written once from start to end, read any number of times in blocks of about 256 KiB, each with its
// CRC32C; a torn or damaged spool is data_corrupt, never half read.
//
// File: "CES1" · blocks {u32 length, u32 crc32c, records} · … ; records: entry (1), chunks (2, at most 4,096 of them), end (3,
// with the number of entries). Local to one machine; no other program reads it.
//
// Writer and reader belong to one thread each.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "codec/bytes.h"
#include "os/fd.h"
#include "store/types.h"
#include "transfer/stat_cache.h"

namespace cairn::transfer {

enum class Action : uint8_t {
  kPut = 1,       // the entry as it stands here, with these chunks
  kRead = 2,      // a file to be read from `local`; the chunks are what the base has at this path
  kDelete = 3,    // `path` alone
};

struct SpoolEntry {
  Action action = Action::kPut;
  bool same_metadata = false;  // kRead: mode and mtime are those of the base; equal contents then mean no change
  store::Entry entry;     // without `chunks` and `list`
  std::string local;      // where to read it, relative to the tree
  FileIdentity identity;  // of the local file; all zero when there is none
  ContentId content;      // of files, when known; else all zero. kRead: of the base's file
};

// A file without a name in `dir` (made if missing); gone when closed.
Result<os::Fd> make_scratch_file(const std::string& dir);

// A sequence of entries as readers see it.
class EntrySource {
 public:
  virtual ~EntrySource() = default;
  // False at the end. Chunks of the entry before that were not read are skipped.
  virtual Result<bool> next(SpoolEntry& entry) = 0;
  // Chunks of the entry just returned, in spans of bounded length; empty at their end. Valid until the next call.
  virtual Result<std::span<const store::ChunkRef>> next_chunks() = 0;
};

class SpoolWriter {
 public:
  // Writes from the descriptor's start. REQUIRES: `fd` outlives the writer.
  explicit SpoolWriter(int fd);
  // `entry.entry.chunk_count` chunks must follow by add_chunks.
  Status add(const SpoolEntry& entry);
  Status add_chunks(std::span<const store::ChunkRef> chunks);
  // add with its chunks at once.
  Status add(const SpoolEntry& entry, std::span<const store::ChunkRef> chunks);
  Status finish();
  uint64_t entries() const { return entries_; }

 private:
  Status flush();
  int fd_;
  uint64_t offset_ = 0;
  uint64_t entries_ = 0;
  uint64_t chunks_due_ = 0;
  codec::Bytes block_;
};

class SpoolReader final : public EntrySource {
 public:
  // Reads from the descriptor's start, by offset (several readers may share it). REQUIRES: `fd` outlives the reader.
  explicit SpoolReader(int fd);
  // Of a named file.
  static Result<std::unique_ptr<SpoolReader>> open(const std::string& path);

  Result<bool> next(SpoolEntry& entry) override;
  Result<std::span<const store::ChunkRef>> next_chunks() override;

 private:
  Status load_block();
  Status corrupt(const char* what) const;
  os::Fd owned_;
  int fd_;
  std::string name_ = "spool";
  uint64_t offset_ = 0;
  codec::Bytes block_;
  std::optional<codec::ByteReader> reader_;
  uint64_t entries_ = 0;
  uint64_t chunks_due_ = 0;
  bool ended_ = false;
  std::vector<store::ChunkRef> chunks_;
};

// Reads all chunks of the entry just returned, at most `limit`; sets `*truncated` when there are more.
Result<std::vector<store::ChunkRef>> read_chunks(EntrySource& source, size_t limit, bool* truncated);

// Calls `function` with each entry, until it fails; chunks it does not read are skipped.
template <class Function>
Status each_entry(EntrySource& source, const Deadline& deadline, Function function) {
  SpoolEntry entry;
  while (true) {
    CAIRN_CHECK_OK(deadline.check());
    CAIRN_TRY(bool more, source.next(entry));
    if (!more) return ok();
    CAIRN_CHECK_OK(function(entry));
  }
}

// All chunks of the entry just read go to the entry just written.
Status copy_chunks(EntrySource& from, SpoolWriter& to);

}  // namespace cairn::transfer
