// A changeset is a strictly sorted stream of puts and deletes; a listing is a changeset of puts (docs/formats/changeset.md).
// Writers publish with it, the server streams listings with it.
//
// Writer and reader hold one block (at most 1 MiB raw) in memory whatever the length of the stream, and check everything as
// it passes: order, paths, kinds, lengths, that a file's size is the sum of its chunks, the record count and the CRC at the
// end. Each object is used by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/limits.h"
#include "base/result.h"
#include "codec/bytes.h"
#include "store/types.h"

namespace cairn::store {

inline constexpr uint64_t kChunksPerSegmentMax = 4096;
inline constexpr uint64_t kChangesetBlockBytesMax = limits::kMiB;

// Where encoded bytes go. A sink that failed once is not called again.
class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual Status write(ByteView bytes) = 0;
};

// Where encoded bytes come from: fills `out` from the front and returns how many, 0 at the end.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual Result<size_t> read(std::span<uint8_t> out) = 0;
};

class BytesSink final : public ByteSink {
 public:
  Status write(ByteView bytes) override;
  const Bytes& bytes() const { return bytes_; }
  Bytes take() { return std::move(bytes_); }

 private:
  Bytes bytes_;
};

class BytesSource final : public ByteSource {
 public:
  explicit BytesSource(ByteView bytes) : bytes_(bytes) {}
  Result<size_t> read(std::span<uint8_t> out) override;

 private:
  ByteView bytes_;
};

// One record. A put carries the entry without chunks; the file's chunks follow by next_chunks().
struct Change {
  enum class Kind : uint8_t { kPut = 1, kDelete = 3, kDeletePrefix = 4 };
  Kind kind = Kind::kPut;
  Entry entry;               // kPut: all but `chunks`. The deletes: `path` only
  uint64_t first_chunk = 0;  // listings: index of the first chunk that follows; 0 in a changeset
};

// A sorted stream of changes. After a put of a file with chunks, next_chunks() is called until it returns an empty span,
// unless the change has `entry.list` set: then the list is taken over as it is (server-side moves and copies).
class ChangeSource {
 public:
  virtual ~ChangeSource() = default;
  // False at the end. The rest of the last file's chunks must have been read.
  virtual Result<bool> next(Change& change) = 0;
  // The next chunks of the file just put, at most kChunksPerSegmentMax; empty when there are no more. Valid until the next
  // call.
  virtual Result<std::span<const ChunkRef>> next_chunks() = 0;
};

enum class ChangesetMode {
  kChangeset,  // whole files only
  kListing,    // puts only; the first file may start in its middle, the last may end early
};

class ChangesetWriter {
 public:
  ChangesetWriter(ByteSink& sink, ChangesetMode mode = ChangesetMode::kChangeset);
  ~ChangesetWriter();

  // The entry's own `chunks` and `list` are not looked at: `chunk_count - first_chunk` chunks must follow by add_chunks.
  Status put(const EntryView& entry, uint64_t first_chunk = 0);
  Status add_chunks(std::span<const ChunkRef> chunks);
  // put and add_chunks of an entry whose chunks stand in it.
  Status put_whole(const EntryView& entry);
  Status remove(std::string_view path);
  // `path` and everything below it. A put of the same path may follow.
  Status remove_prefix(std::string_view path);
  // Writes the end record. Nothing may follow.
  Status finish();

  // Raw bytes encoded so far; what a page's limit is compared with.
  uint64_t raw_bytes() const;
  uint64_t records() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class ChangesetReader final : public ChangeSource {
 public:
  ChangesetReader(ByteSource& source, ChangesetMode mode = ChangesetMode::kChangeset,
                  uint64_t bytes_max = limits::kChangesetBytesMax);
  ~ChangesetReader() override;

  // kChangesetInvalid for anything the format does not allow, kLimitExceeded past `bytes_max`.
  Result<bool> next(Change& change) override;
  Result<std::span<const ChunkRef>> next_chunks() override;
  uint64_t records() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cairn::store
