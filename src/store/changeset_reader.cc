#include <vector>

#include <fmt/format.h>

#include "codec/crc32c.h"
#include "codec/zstd_frame.h"
#include "store/changeset.h"
#include "store/changeset_format.h"
#include "store/encoding.h"
#include "store/paths.h"

namespace cairn::store {

struct ChangesetReader::State {
  State(ByteSource& s, ChangesetMode m, uint64_t max) : source(&s), mode(m), bytes_left(max) {}

  ByteSource* source;
  ChangesetMode mode;
  uint64_t bytes_left;
  codec::Decompressor decompressor;
  Bytes stored;
  Bytes block;
  codec::ByteReader reader{ByteView()};
  uint32_t crc = 0;          // of the blocks before this one
  std::string block_path;
  std::string last_path;
  RecordType last_type = RecordType::kEnd;
  EntryKind last_kind = EntryKind::kDirectory;
  uint64_t records = 0;
  uint64_t chunks_left = 0;
  uint64_t size_left = 0;
  bool partial = false;
  bool started = false;
  bool ended = false;
  std::optional<Error> failed;
  std::vector<ChunkRef> chunks;

  Error fail(Error error) {
    if (!failed) failed = error;
    return error;
  }
  Error invalid(std::string_view what) {
    Code code = mode == ChangesetMode::kListing ? Code::kDataCorrupt : Code::kChangesetInvalid;
    return fail(Error(code, fmt::format("{} (record {}, after '{}')", what, records, escape_for_display(last_path))));
  }

  Status read_exactly(std::span<uint8_t> out);
  Status read_header();
  Status read_block();
  // The type of the next record, read but not parsed further.
  Result<RecordType> peek();
  Status read_end();
  Status read_record_path(RecordType type, std::string& path);
  Status read_put(Change& change);
};

Status ChangesetReader::State::read_exactly(std::span<uint8_t> out) {
  if (out.size() > bytes_left) return fail(Error(Code::kLimitExceeded, "the changeset is longer than allowed"));
  bytes_left -= out.size();
  while (!out.empty()) {
    auto count = source->read(out);
    if (!count) return fail(count.error());
    if (*count == 0 || *count > out.size()) return invalid("the changeset ends before its end record");
    out = out.subspan(*count);
  }
  return ok();
}

Status ChangesetReader::State::read_header() {
  started = true;
  std::array<uint8_t, kChangesetHeaderBytes> bytes;
  CAIRN_CHECK_OK(read_exactly(bytes));
  codec::ByteReader header{ByteView(bytes)};
  if (!header.expect(kChangesetMagic)) return invalid("this is no changeset");
  if (header.u8() != kChangesetVersion) {
    return fail(Error(Code::kFormatUnsupported, "changeset of a version this build does not know"));
  }
  if (header.u8() != (mode == ChangesetMode::kListing ? 1 : 0)) {
    return invalid(mode == ChangesetMode::kListing ? "this is a changeset, not a listing"
                                                   : "this is a listing, not a changeset");
  }
  return ok();
}

Status ChangesetReader::State::read_block() {
  std::array<uint8_t, kBlockHeaderBytes> bytes;
  CAIRN_CHECK_OK(read_exactly(bytes));
  codec::ByteReader header{ByteView(bytes)};
  uint32_t raw_len = header.u32();
  uint32_t stored_len = header.u32();
  uint32_t expected = header.u32();
  if (raw_len == 0 || raw_len > kChangesetBlockBytesMax || stored_len == 0 || stored_len > raw_len) {
    return invalid(fmt::format("a block of {} bytes stored as {}", raw_len, stored_len));
  }
  stored.resize(stored_len);
  CAIRN_CHECK_OK(read_exactly(stored));
  if (codec::crc32c(stored, codec::crc32c(ByteView(bytes).first(8))) != expected) {
    return invalid("a block is damaged on its way");
  }
  crc = codec::crc32c(block, crc);
  if (stored_len == raw_len) {
    block.swap(stored);
  } else {
    block.resize(raw_len);
    if (auto status = decompressor.decompress(stored, block); !status) return invalid(status.error().message());
  }
  reader = codec::ByteReader(block);
  block_path.clear();
  return ok();
}

Result<RecordType> ChangesetReader::State::peek() {
  if (failed) return *failed;
  if (!started) CAIRN_CHECK_OK(read_header());
  while (reader.remaining() == 0) CAIRN_CHECK_OK(read_block());
  uint8_t type = block[reader.position()];
  if (type < static_cast<uint8_t>(RecordType::kPut) || type > static_cast<uint8_t>(RecordType::kEnd)) {
    return invalid(fmt::format("a record of unknown type {}", type));
  }
  return static_cast<RecordType>(type);
}

Status ChangesetReader::State::read_end() {
  uint32_t actual = codec::crc32c(ByteView(block).first(reader.position()), crc);
  reader.skip(1);
  uint64_t count = reader.varint();
  uint32_t expected = reader.u32();
  if (!reader.finished()) return invalid("bytes follow the end record");
  if (count != records || actual != expected) {
    return invalid(fmt::format("the end record speaks of {} records with checksum {:08x}, there are {} with {:08x}", count,
                               expected, records, actual));
  }
  uint8_t more = 0;
  auto rest = source->read(std::span(&more, 1));
  if (!rest) return fail(rest.error());
  if (*rest != 0) return invalid("bytes follow the end record");
  ended = true;
  return ok();
}

Status ChangesetReader::State::read_record_path(RecordType type, std::string& path) {
  bool replaces = last_type == RecordType::kDeletePrefix && type == RecordType::kPut;
  path = block_path;
  if (!read_path(reader, path, replaces)) return invalid("a path is out of order or not valid");
  int order = last_path.empty() ? 1 : path_compare(path, last_path);
  if (order < 0 || (order == 0 && !replaces)) {
    return invalid(fmt::format("'{}' is out of order", escape_for_display(path)));
  }
  // In a changeset this is merge's to judge, which also knows the base; a listing must be a tree.
  if (mode == ChangesetMode::kListing && last_kind != EntryKind::kDirectory && is_under(path, last_path)) {
    return invalid(fmt::format("'{}' lies below what is no folder", escape_for_display(path)));
  }
  block_path = path;
  last_path = path;
  last_type = type;
  ++records;
  return ok();
}

Status ChangesetReader::State::read_put(Change& change) {
  Entry& entry = change.entry;
  CAIRN_CHECK_OK(read_record_path(RecordType::kPut, entry.path));
  uint8_t kind = reader.u8();
  entry.mode = static_cast<uint32_t>(reader.varint(07777));
  entry.mtime_ns = reader.zigzag();
  switch (kind) {
    case static_cast<uint8_t>(EntryKind::kFile):
      entry.size = reader.varint(limits::kFileBytesMax);
      entry.chunk_count = reader.varint(entry.size);
      change.first_chunk = reader.varint(entry.chunk_count);
      if (entry.size > entry.chunk_count * limits::kChunkBytesMax) reader.fail();
      if (change.first_chunk > 0 && (mode != ChangesetMode::kListing || records > 1 ||
                                     change.first_chunk == entry.chunk_count)) {
        reader.fail();
      }
      break;
    case static_cast<uint8_t>(EntryKind::kDirectory):
      break;
    case static_cast<uint8_t>(EntryKind::kSymlink):
      entry.target = codec::as_text(reader.prefixed(limits::kSymlinkBytesMax));
      if (!validate_symlink_target(entry.target)) reader.fail();
      break;
    default:
      reader.fail();
  }
  if (!reader.ok()) return invalid("a put is not valid");
  entry.kind = static_cast<EntryKind>(kind);
  last_kind = entry.kind;
  chunks_left = entry.chunk_count - change.first_chunk;
  size_left = entry.size;
  partial = change.first_chunk > 0;
  return ok();
}

ChangesetReader::ChangesetReader(ByteSource& source, ChangesetMode mode, uint64_t bytes_max)
    : state_(std::make_unique<State>(source, mode, bytes_max)) {}
ChangesetReader::~ChangesetReader() = default;

Result<bool> ChangesetReader::next(Change& change) {
  State& s = *state_;
  while (s.chunks_left > 0) {
    CAIRN_TRY(auto skipped, next_chunks());
    if (skipped.empty()) break;
  }
  if (s.ended) return false;
  change = Change();
  CAIRN_TRY(RecordType type, s.peek());
  if (type == RecordType::kEnd) {
    CAIRN_CHECK_OK(s.read_end());
    return false;
  }
  if (type == RecordType::kChunks) return s.invalid("chunks without a file that lacks them");
  s.reader.skip(1);
  if (type == RecordType::kPut) {
    CAIRN_CHECK_OK(s.read_put(change));
    return true;
  }
  if (s.mode == ChangesetMode::kListing) return s.invalid("a listing holds puts only");
  change.kind = type == RecordType::kDelete ? Change::Kind::kDelete : Change::Kind::kDeletePrefix;
  CAIRN_CHECK_OK(s.read_record_path(type, change.entry.path));
  return true;
}

Result<std::span<const ChunkRef>> ChangesetReader::next_chunks() {
  State& s = *state_;
  s.chunks.clear();
  if (s.failed) return *s.failed;
  if (s.chunks_left == 0 || s.ended) return std::span<const ChunkRef>();
  CAIRN_TRY(RecordType type, s.peek());
  if (type == RecordType::kEnd && s.mode == ChangesetMode::kListing) return std::span<const ChunkRef>();
  if (type != RecordType::kChunks) return s.invalid(fmt::format("{} chunks of a file are missing", s.chunks_left));
  s.reader.skip(1);
  ++s.records;
  uint64_t count = s.reader.varint(std::min(kChunksPerSegmentMax, s.chunks_left));
  PackTable table;
  if (count == 0 || !table.read(s.reader, count)) return s.invalid("a segment of chunks is not valid");
  for (uint64_t i = 0; i < count && s.reader.ok(); ++i) {
    ChunkRef chunk;
    chunk.hash = read_digest(s.reader);
    chunk.raw_len = static_cast<uint32_t>(s.reader.varint(std::min(limits::kChunkBytesMax, s.size_left)));
    chunk.place = read_place(s.reader, table, chunk.raw_len);
    if (chunk.raw_len == 0) s.reader.fail();
    s.size_left -= chunk.raw_len;
    s.chunks.push_back(chunk);
  }
  s.chunks_left -= count;
  if (!s.reader.ok() || !table.all_used()) return s.invalid("a segment of chunks is not valid");
  if (s.chunks_left == 0 && s.size_left > 0 && !s.partial) return s.invalid("a file's chunks do not sum up to its size");
  return std::span<const ChunkRef>(s.chunks);
}

uint64_t ChangesetReader::records() const { return state_->records; }

}  // namespace cairn::store
