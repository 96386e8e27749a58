#include "transfer/file_chunker.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace cairn::transfer {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kBlockBytes = 8 << 20;
constexpr size_t kHeadBytes = FileChunker::kSmallBytesMax + kPage;  // room for an uncut tail, page-aligned
constexpr size_t kBlocksAFile = 5;
constexpr uint64_t kDirectBytesMin = 64 << 20;

// Whether the file's bytes are in the page cache, asked of four places.
bool is_cached(int fd, uint64_t size) {
  uint8_t byte;
  iovec part{&byte, 1};
  for (uint64_t i = 0; i < 4; ++i) {
    off_t offset = static_cast<off_t>(size / 5 * (i + 1));
    if (::preadv2(fd, &part, 1, offset, RWF_NOWAIT) != 1) return false;
  }
  return true;
}

}  // namespace

struct FileChunker::Block {
  Block() : bytes(static_cast<uint8_t*>(std::aligned_alloc(kPage, kHeadBytes + kBlockBytes))) {}
  ~Block() { std::free(bytes); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  uint8_t* bytes;
  size_t size = 0;  // read behind the head room
};

// Blocks between two files: touching new memory costs as much as hashing it.
struct FileChunker::BlockPool {
  std::unique_ptr<Block> take() {
    std::lock_guard lock(mutex);
    if (spare.empty()) return std::make_unique<Block>();
    std::unique_ptr<Block> block = std::move(spare.back());
    spare.pop_back();
    return block;
  }
  void put(std::unique_ptr<Block> block) {
    std::lock_guard lock(mutex);
    spare.push_back(std::move(block));
  }
  std::mutex mutex;
  std::vector<std::unique_ptr<Block>> spare;
};

// One long file under way. The number of blocks bounds its memory: a block is free again when no piece refers to it.
struct FileChunker::Large {
  Large(int file, bool is_stream, std::string file_name, const Hint* base_hint, RefList& list, BlockPool& block_pool)
      : pool(block_pool),
        fd(file), 
        stream(is_stream),
        name(std::move(file_name)),
        hint(base_hint),
        refs(list),
        blocks(2) {}

  std::shared_ptr<Block> new_block() {
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return used < kBlocksAFile || error; });
      if (error) return nullptr;
      ++used;
    }
    return std::shared_ptr<Block>(pool.take().release(), [this](Block* done) {
      pool.put(std::unique_ptr<Block>(done));
      std::lock_guard guard(mutex);
      --used;
      changed.notify_all();
    });
  }
  void fail(Error what) {
    {
      std::lock_guard lock(mutex);
      if (!error) error = std::move(what);
      changed.notify_all();
    }
    blocks.abort();
  }

  BlockPool& pool;
  const int fd;
  const bool stream;
  const std::string name;
  const Hint* hint;
  RefList& refs;
  Channel<std::shared_ptr<Block>> blocks;

  std::mutex mutex;
  std::condition_variable changed;
  size_t used = 0;
  uint64_t pieces_open = 0;
  std::optional<Error> error;

  // Reads ahead; an empty block ends the file.
  void read_ahead(Progress& progress) {
    uint64_t offset = 0;
    while (true) {
      std::shared_ptr<Block> block = new_block();
      if (!block) return;
      std::span<uint8_t> room(block->bytes + kHeadBytes, kBlockBytes);
      auto got = stream ? os::read_full(fd, room, name) : os::read_full_at(fd, offset, room, name);
      if (!got && !stream && offset == 0 && (::fcntl(fd, F_GETFL) & O_DIRECT) != 0) {
        // A file system that takes the flag and refuses the reading.
        (void)::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_DIRECT);
        got = os::read_full_at(fd, offset, room, name);
      }
      if (!got) {
        fail(std::move(got).error());
        return;
      }
      block->size = *got;
      offset += *got;
      progress.bytes_done.fetch_add(*got);
      bool last = *got == 0;
      if (!blocks.push(std::move(block)) || last) return;
    }
  }
};

struct FileChunker::Piece {
  Large* large = nullptr;
  std::shared_ptr<Block> block;
  codec::ByteView raw;
  uint64_t index = 0;
};

FileChunker::FileChunker(PackSender& sender, unsigned hashers, unsigned large_at_once, Progress& progress,
                         const Deadline& deadline)
    : sender_(sender),
      progress_(progress),
      deadline_(deadline),
      pool_(std::make_unique<BlockPool>()),
      pieces_(std::make_unique<Channel<Piece>>(2 * hashers)),
      large_free_(large_at_once) {
  for (unsigned i = 0; i < hashers; ++i) threads_.emplace_back([this] { hash_pieces(); });
}

FileChunker::~FileChunker() {
  pieces_->close();
  for (std::thread& thread : threads_) thread.join();
}

Result<store::ChunkRef> FileChunker::place(codec::ByteView raw, const Hint* hint) {
  codec::Digest hash = codec::sha256(raw);
  if (hint != nullptr) {
    auto found = hint->find(hash);
    if (found != hint->end() && found->second.raw_len == raw.size()) {
      progress_.chunks_reused.fetch_add(1);
      return found->second;
    }
  }
  return sender_.place(hash, raw);
}

void FileChunker::hash_pieces() {
  while (std::optional<Piece> piece = pieces_->pop()) {
    Large& large = *piece->large;
    bool failed;
    {
      std::lock_guard lock(large.mutex);
      failed = large.error.has_value();
    }
    if (!failed) {
      Result<store::ChunkRef> ref = place(piece->raw, large.hint);
      Status set = ref ? large.refs.set(piece->index, *ref) : Status(ref.error());
      if (!set) large.fail(std::move(set).error());
    }
    piece->block.reset();
    std::lock_guard lock(large.mutex);
    --large.pieces_open;
    large.changed.notify_all();
  }
}

Result<uint64_t> FileChunker::chunk_file(int fd, std::optional<uint64_t> expected_size, const std::string& name,
                                         const Hint* hint, RefList& refs, Buffer& buffer) {
  if (expected_size && *expected_size <= kSmallBytesMax) return chunk_small(fd, name, hint, refs, buffer);
  {
    std::unique_lock lock(mutex_);
    large_done_.wait(lock, [&] { return large_free_ > 0; });
    --large_free_;
  }
  if (expected_size && *expected_size >= kDirectBytesMin && !is_cached(fd, *expected_size)) {
    (void)::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_DIRECT);
  }
  Result<uint64_t> size = chunk_large(fd, !expected_size.has_value(), name, hint, refs);
  std::lock_guard lock(mutex_);
  ++large_free_;
  large_done_.notify_one();
  return size;
}

Result<uint64_t> FileChunker::chunk_small(int fd, const std::string& name, const Hint* hint, RefList& refs, Buffer& buffer) {
  // One byte more than allowed, to see a file that grew.
  if (buffer.bytes.empty()) buffer.bytes.resize(kSmallBytesMax + 1);
  CAIRN_TRY(size_t size, os::read_full_at(fd, 0, buffer.bytes, name));
  codec::ByteView rest(buffer.bytes.data(), size);
  for (uint64_t index = 0; !rest.empty(); ++index) {
    size_t cut = chunker_.next_cut(rest, true);
    CAIRN_TRY(store::ChunkRef ref, place(rest.first(cut), hint));
    CAIRN_CHECK_OK(refs.set(index, ref));
    rest = rest.subspan(cut);
  }
  progress_.bytes_done.fetch_add(size);
  return size;
}

Result<uint64_t> FileChunker::chunk_large(int fd, bool stream, const std::string& name, const Hint* hint, RefList& refs) {
  Large large(fd, stream, name, hint, refs, *pool_);
  std::thread reader([&] { large.read_ahead(progress_); });
  Result<uint64_t> size = cut_blocks(large);
  if (!size) large.fail(size.error());
  large.blocks.abort();
  reader.join();
  std::unique_lock lock(large.mutex);
  large.changed.wait(lock, [&] { return large.pieces_open == 0 && large.used == 0; });
  if (large.error) return *large.error;
  return size;
}

Result<uint64_t> FileChunker::cut_blocks(Large& large) {
  uint64_t size = 0;
  uint64_t index = 0;
  std::shared_ptr<Block> before;
  codec::ByteView tail;  // uncut, in `before`
  while (true) {
    CAIRN_CHECK_OK(deadline_.check());
    std::optional<std::shared_ptr<Block>> next = large.blocks.pop();
    if (!next) return Error(Code::kInternal, "the reading of " + large.name + " ended early");
    std::shared_ptr<Block> block = std::move(*next);
    bool at_end = block->size == 0;
    size += block->size;
    uint8_t* start = block->bytes + kHeadBytes - tail.size();
    if (!tail.empty()) std::memcpy(start, tail.data(), tail.size());
    codec::ByteView rest(start, tail.size() + block->size);
    before.reset();
    while (!rest.empty() && (at_end || rest.size() >= store::Chunker::kMax)) {
      size_t cut = chunker_.next_cut(rest, at_end);
      if (cut == 0) break;
      {
        std::lock_guard lock(large.mutex);
        if (large.error) return *large.error;
        ++large.pieces_open;
      }
      pieces_->push(Piece{&large, block, rest.first(cut), index++});
      rest = rest.subspan(cut);
    }
    if (at_end) return size;
    tail = rest;
    before = std::move(block);
  }
}

}  // namespace cairn::transfer
