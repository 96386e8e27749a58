#include "transfer/entry_spool.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "base/ids.h"
#include "base/limits.h"
#include "base/random.h"
#include "codec/crc32c.h"
#include "os/file_system.h"
#include "os/tree.h"

namespace cairn::transfer {
namespace {

constexpr std::string_view kMagic = "CES1";
constexpr size_t kBlockTarget = 256 * 1024;
constexpr size_t kBlockMax = 1024 * 1024;
constexpr size_t kChunksPerRecord = 4096;
constexpr size_t kChunkBytes = 32 + 4 + 16 + 4 + 4;
constexpr uint8_t kEntryRecord = 1;
constexpr uint8_t kChunksRecord = 2;
constexpr uint8_t kEndRecord = 3;

void write_identity(codec::ByteWriter& writer, const FileIdentity& identity) {
  writer.varint(identity.device);
  writer.varint(identity.inode);
  writer.varint(identity.size);
  writer.zigzag(identity.mtime_ns);
  writer.zigzag(identity.ctime_ns);
}

void read_identity(codec::ByteReader& reader, FileIdentity& identity) {
  identity.device = reader.varint();
  identity.inode = reader.varint();
  identity.size = reader.varint();
  identity.mtime_ns = reader.zigzag();
  identity.ctime_ns = reader.zigzag();
}

}  // namespace

Result<os::Fd> make_scratch_file(const std::string& dir) {
  CAIRN_CHECK_OK(os::posix_file_system().make_directories(dir, 0700));
  int fd = ::open(dir.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0) return os::Fd(fd);
  // File systems without O_TMPFILE (overlay, NFS).
  std::string name = ".spool-" + RequestId::random(system_random()).hex();
  CAIRN_TRY(os::Directory folder, os::Directory::open(dir));
  CAIRN_TRY(os::Fd file, folder.create_file(name, 0600));
  CAIRN_CHECK_OK(folder.remove(name));
  return file;
}

SpoolWriter::SpoolWriter(int fd) : fd_(fd) {
  codec::ByteWriter(block_).bytes(kMagic);
}

Status SpoolWriter::flush() {
  codec::Bytes head;
  codec::ByteWriter writer(head);
  if (offset_ == 0) {
    // The magic was put in front of the first block.
    writer.bytes(kMagic);
    block_.erase(block_.begin(), block_.begin() + static_cast<ptrdiff_t>(kMagic.size()));
  }
  if (block_.empty()) return ok();
  writer.u32(static_cast<uint32_t>(block_.size()));
  writer.u32(codec::crc32c(block_));
  CAIRN_CHECK_OK(os::write_all_at(fd_, offset_, head, "spool file"));
  CAIRN_CHECK_OK(os::write_all_at(fd_, offset_ + head.size(), block_, "spool file"));
  offset_ += head.size() + block_.size();
  block_.clear();
  return ok();
}

Status SpoolWriter::add(const SpoolEntry& entry) {
  if (chunks_due_ != 0) return Error(Code::kInternal, "spool: an entry before the last one's chunks");
  codec::ByteWriter writer(block_);
  const store::Entry& e = entry.entry;
  writer.u8(kEntryRecord);
  writer.u8(static_cast<uint8_t>(entry.action));
  writer.u8(entry.same_metadata ? 1 : 0);
  writer.u8(static_cast<uint8_t>(e.kind));
  writer.prefixed(e.path);
  writer.prefixed(entry.local);
  writer.varint(e.mode);
  writer.zigzag(e.mtime_ns);
  writer.varint(e.size);
  writer.prefixed(e.target);
  write_identity(writer, entry.identity);
  writer.bytes(entry.content.view());
  writer.varint(e.chunk_count);
  ++entries_;
  chunks_due_ = e.chunk_count;
  return block_.size() >= kBlockTarget ? flush() : ok();
}

Status SpoolWriter::add_chunks(std::span<const store::ChunkRef> chunks) {
  if (chunks.size() > chunks_due_) return Error(Code::kInternal, "spool: more chunks than announced");
  chunks_due_ -= chunks.size();
  while (!chunks.empty()) {
    std::span<const store::ChunkRef> part = chunks.first(std::min(chunks.size(), kChunksPerRecord));
    codec::ByteWriter writer(block_);
    writer.u8(kChunksRecord);
    writer.varint(part.size());
    for (const store::ChunkRef& chunk : part) {
      writer.bytes(chunk.hash.view());
      writer.u32(chunk.raw_len);
      writer.bytes(chunk.place.pack.bytes());
      writer.u32(chunk.place.offset);
      writer.u32(chunk.place.stored_len);
    }
    chunks = chunks.subspan(part.size());
    if (block_.size() >= kBlockTarget) CAIRN_CHECK_OK(flush());
  }
  return ok();
}

Status SpoolWriter::add(const SpoolEntry& entry, std::span<const store::ChunkRef> chunks) {
  CAIRN_CHECK_OK(add(entry));
  return add_chunks(chunks);
}

Status SpoolWriter::finish() {
  if (chunks_due_ != 0) return Error(Code::kInternal, "spool: the last entry's chunks are missing");
  codec::ByteWriter writer(block_);
  writer.u8(kEndRecord);
  writer.varint(entries_);
  return flush();
}

SpoolReader::SpoolReader(int fd) : fd_(fd) {}

Result<std::unique_ptr<SpoolReader>> SpoolReader::open(const std::string& path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Error::from_errno(errno, path);
  auto reader = std::make_unique<SpoolReader>(fd);
  reader->owned_.reset(fd);
  reader->name_ = path;
  return reader;
}

Status SpoolReader::corrupt(const char* what) const { return Error(Code::kDataCorrupt, name_ + ": " + what); }

Status SpoolReader::load_block() {
  uint8_t head[12];
  size_t want = offset_ == 0 ? 12 : 8;
  std::span<uint8_t> view(head, want);
  CAIRN_TRY(size_t got, os::read_full_at(fd_, offset_, view, name_));
  if (got != want) return corrupt("it ends early");
  codec::ByteReader reader{codec::ByteView(view)};
  if (offset_ == 0) reader.expect(kMagic);
  uint32_t length = reader.u32();
  uint32_t crc = reader.u32();
  if (!reader.ok() || length == 0 || length > kBlockMax) return corrupt("no block where one should be");
  block_.resize(length);
  CAIRN_TRY(got, os::read_full_at(fd_, offset_ + want, block_, name_));
  if (got != length || codec::crc32c(block_) != crc) return corrupt("a block's checksum does not agree");
  offset_ += want + length;
  reader_.emplace(codec::ByteView(block_));
  return ok();
}

Result<bool> SpoolReader::next(SpoolEntry& entry) {
  while (chunks_due_ != 0) {
    CAIRN_TRY(std::span<const store::ChunkRef> skipped, next_chunks());
    if (skipped.empty()) break;
  }
  if (ended_) return false;
  if (!reader_ || reader_->at_end()) CAIRN_CHECK_OK(load_block());
  codec::ByteReader& reader = *reader_;
  uint8_t type = reader.u8();
  if (type == kEndRecord) {
    uint64_t count = reader.varint();
    if (!reader.finished() || count != entries_) return Error(corrupt("its end does not agree").error());
    ended_ = true;
    return false;
  }
  if (type != kEntryRecord) return Error(corrupt("an unknown record").error());
  entry.action = static_cast<Action>(reader.u8());
  entry.same_metadata = reader.u8() != 0;
  store::Entry& e = entry.entry;
  e.kind = static_cast<store::EntryKind>(reader.u8());
  e.path = codec::as_text(reader.prefixed(limits::kPathBytesMax));
  entry.local = codec::as_text(reader.prefixed(limits::kPathBytesMax));
  e.mode = static_cast<uint32_t>(reader.varint(07777));
  e.mtime_ns = reader.zigzag();
  e.size = reader.varint();
  e.target = codec::as_text(reader.prefixed(limits::kSymlinkBytesMax));
  read_identity(reader, entry.identity);
  codec::ByteView content = reader.bytes(ContentId::kSize);
  e.chunk_count = reader.varint();
  e.chunks.clear();
  e.list.reset();
  if (!reader.ok()) return Error(corrupt("a torn record").error());
  entry.content = ContentId::from_bytes(content);
  chunks_due_ = e.chunk_count;
  ++entries_;
  return true;
}

Result<std::span<const store::ChunkRef>> SpoolReader::next_chunks() {
  chunks_.clear();
  if (chunks_due_ == 0) return std::span<const store::ChunkRef>();
  if (reader_->at_end()) CAIRN_CHECK_OK(load_block());
  codec::ByteReader& reader = *reader_;
  if (reader.u8() != kChunksRecord) return Error(corrupt("chunks are missing").error());
  uint64_t count = reader.varint(kChunksPerRecord);
  if (!reader.ok() || count == 0 || count > chunks_due_ || count * kChunkBytes > reader.remaining()) {
    return Error(corrupt("a wrong number of chunks").error());
  }
  chunks_.resize(count);
  for (store::ChunkRef& chunk : chunks_) {
    chunk.hash = codec::Digest::from_bytes(reader.bytes(codec::Digest::kSize));
    chunk.raw_len = reader.u32();
    chunk.place.pack = PackId::from_bytes(reader.bytes(PackId::kSize).data());
    chunk.place.offset = reader.u32();
    chunk.place.stored_len = reader.u32();
  }
  chunks_due_ -= count;
  return std::span<const store::ChunkRef>(chunks_);
}

Result<std::vector<store::ChunkRef>> read_chunks(EntrySource& source, size_t limit, bool* truncated) {
  std::vector<store::ChunkRef> all;
  *truncated = false;
  while (true) {
    CAIRN_TRY(std::span<const store::ChunkRef> chunks, source.next_chunks());
    if (chunks.empty()) return all;
    size_t room = limit - all.size();
    if (chunks.size() > room) *truncated = true;
    all.insert(all.end(), chunks.begin(), chunks.begin() + static_cast<ptrdiff_t>(std::min(room, chunks.size())));
  }
}

Status copy_chunks(EntrySource& from, SpoolWriter& to) {
  while (true) {
    CAIRN_TRY(std::span<const store::ChunkRef> chunks, from.next_chunks());
    if (chunks.empty()) return ok();
    CAIRN_CHECK_OK(to.add_chunks(chunks));
  }
}

}  // namespace cairn::transfer
