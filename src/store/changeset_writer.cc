#include <algorithm>

#include <fmt/format.h>

#include "codec/crc32c.h"
#include "codec/zstd_frame.h"
#include "store/changeset.h"
#include "store/changeset_format.h"
#include "store/encoding.h"
#include "store/paths.h"

namespace cairn::store {

namespace {

Error misuse(std::string what) { return Error(Code::kChangesetInvalid, std::move(what)); }

}  // namespace

Status BytesSink::write(ByteView bytes) {
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  return ok();
}

Result<size_t> BytesSource::read(std::span<uint8_t> out) {
  size_t count = std::min(out.size(), bytes_.size());
  std::copy_n(bytes_.begin(), count, out.begin());
  bytes_ = bytes_.subspan(count);
  return count;
}

struct ChangesetWriter::State {
  State(ByteSink& s, ChangesetMode m) : sink(&s), mode(m) {}

  ByteSink* sink;
  ChangesetMode mode;
  Bytes block;
  Bytes stored;
  codec::Compressor compressor;
  std::string block_path;  // what the next path of this block is shortened against
  std::string last_path;
  RecordType last_type = RecordType::kEnd;
  uint64_t records = 0;
  uint64_t flushed_bytes = 0;
  uint32_t crc = 0;
  uint64_t chunks_left = 0;
  uint64_t bytes_left = 0;
  bool partial = false;  // the open file did not start at its first chunk
  bool started = false;
  bool finished = false;
  std::optional<Error> failed;

  Status fail(Error error) {
    if (!failed) failed = error;
    return error;
  }
  Status flush();
  Status begin_record(RecordType type, std::string_view path);
};

Status ChangesetWriter::State::flush() {
  if (block.empty()) return ok();
  crc = codec::crc32c(block, crc);
  stored.resize(kBlockHeaderBytes + block.size());
  size_t size = 0;
  if (block.size() >= kBlockBytesWorthCompressing) {
    CAIRN_TRY(size, compressor.compress(block, std::span(stored).subspan(kBlockHeaderBytes, block.size() - 1), 1));
  }
  if (size == 0) {
    size = block.size();
    std::copy(block.begin(), block.end(), stored.begin() + kBlockHeaderBytes);
  }
  stored.resize(kBlockHeaderBytes + size);
  Bytes header;
  codec::ByteWriter writer(header);
  writer.u32(static_cast<uint32_t>(block.size()));
  writer.u32(static_cast<uint32_t>(size));
  writer.u32(codec::crc32c(ByteView(stored).subspan(kBlockHeaderBytes), codec::crc32c(header)));
  std::copy(header.begin(), header.end(), stored.begin());
  flushed_bytes += block.size();
  block.clear();
  block_path.clear();
  if (auto status = sink->write(stored); !status) return fail(status.error());
  return ok();
}

Status ChangesetWriter::State::begin_record(RecordType type, std::string_view path) {
  if (failed) return *failed;
  if (finished) return misuse("the changeset is finished already");
  if (chunks_left > 0 && type != RecordType::kChunks && !(mode == ChangesetMode::kListing && type == RecordType::kEnd)) {
    return fail(misuse(fmt::format("{} chunks of '{}' are missing", chunks_left, escape_for_display(last_path))));
  }
  if (!started) {
    started = true;
    Bytes header;
    codec::ByteWriter writer(header);
    writer.bytes(kChangesetMagic);
    writer.u8(kChangesetVersion);
    writer.u8(mode == ChangesetMode::kListing ? 1 : 0);
    if (auto status = sink->write(header); !status) return fail(status.error());
  }
  if (block.size() >= kBlockBytesTarget) CAIRN_CHECK_OK(flush());
  if (type == RecordType::kEnd || type == RecordType::kChunks) return ok();
  if (!is_valid_path(path)) return fail(validate_path(path).error());
  int order = last_path.empty() ? 1 : path_compare(path, last_path);
  bool replaces = order == 0 && last_type == RecordType::kDeletePrefix && type == RecordType::kPut;
  if (order < 0 || (order == 0 && !replaces)) {
    return fail(misuse(fmt::format("'{}' after '{}': a changeset is strictly sorted", escape_for_display(path),
                                   escape_for_display(last_path))));
  }
  codec::ByteWriter writer(block);
  writer.u8(static_cast<uint8_t>(type));
  write_path(writer, block_path, path);
  block_path = path;
  last_path = path;
  last_type = type;
  ++records;
  return ok();
}

ChangesetWriter::ChangesetWriter(ByteSink& sink, ChangesetMode mode) : state_(std::make_unique<State>(sink, mode)) {}
ChangesetWriter::~ChangesetWriter() = default;

Status ChangesetWriter::put(const EntryView& entry, uint64_t first_chunk) {
  State& s = *state_;
  if (entry.mode > 07777) return s.fail(misuse(fmt::format("mode {:o} holds more than permission bits", entry.mode)));
  if (first_chunk > 0 && (s.mode != ChangesetMode::kListing || s.records > 0 || first_chunk >= entry.chunk_count)) {
    return s.fail(misuse("only the first file of a listing may start in its middle"));
  }
  bool is_file = entry.kind == EntryKind::kFile;
  if (is_file && (entry.size > limits::kFileBytesMax || entry.chunk_count > entry.size ||
                  entry.size > entry.chunk_count * limits::kChunkBytesMax)) {
    return s.fail(misuse(fmt::format("'{}' of {} bytes cannot have {} chunks", escape_for_display(entry.path), entry.size,
                                     entry.chunk_count)));
  }
  if (entry.kind == EntryKind::kSymlink) {
    if (auto status = validate_symlink_target(entry.target); !status) return s.fail(status.error());
  }
  CAIRN_CHECK_OK(s.begin_record(RecordType::kPut, entry.path));
  codec::ByteWriter writer(s.block);
  writer.u8(static_cast<uint8_t>(entry.kind));
  writer.varint(entry.mode);
  writer.zigzag(entry.mtime_ns);
  switch (entry.kind) {
    case EntryKind::kFile:
      writer.varint(entry.size);
      writer.varint(entry.chunk_count);
      writer.varint(first_chunk);
      s.chunks_left = entry.chunk_count - first_chunk;
      s.bytes_left = entry.size;
      s.partial = first_chunk > 0;
      break;
    case EntryKind::kDirectory:
      break;
    case EntryKind::kSymlink:
      writer.prefixed(entry.target);
      break;
  }
  return ok();
}

Status ChangesetWriter::add_chunks(std::span<const ChunkRef> chunks) {
  State& s = *state_;
  while (!chunks.empty()) {
    std::span<const ChunkRef> segment = chunks.first(std::min<size_t>(chunks.size(), kChunksPerSegmentMax));
    chunks = chunks.subspan(segment.size());
    if (segment.size() > s.chunks_left) return s.fail(misuse("more chunks than the file has"));
    CAIRN_CHECK_OK(s.begin_record(RecordType::kChunks, {}));
    s.chunks_left -= segment.size();
    ++s.records;
    PackTableBuilder table;
    Bytes rows;
    codec::ByteWriter row(rows);
    for (const ChunkRef& chunk : segment) {
      if (chunk.raw_len == 0 || chunk.raw_len > s.bytes_left || chunk.raw_len > limits::kChunkBytesMax) {
        return s.fail(misuse(fmt::format("the chunks of '{}' do not sum up to its size", escape_for_display(s.last_path))));
      }
      s.bytes_left -= chunk.raw_len;
      row.bytes(chunk.hash.view());
      row.varint(chunk.raw_len);
      write_place(row, table, chunk.place);
    }
    codec::ByteWriter writer(s.block);
    writer.u8(static_cast<uint8_t>(RecordType::kChunks));
    writer.varint(segment.size());
    table.write(writer);
    writer.bytes(ByteView(rows));
    if (s.chunks_left == 0 && s.bytes_left > 0 && !s.partial) {
      return s.fail(misuse(fmt::format("the chunks of '{}' do not sum up to its size", escape_for_display(s.last_path))));
    }
  }
  return ok();
}

Status ChangesetWriter::put_whole(const EntryView& entry) {
  CAIRN_CHECK_OK(put(entry));
  return entry.kind == EntryKind::kFile ? add_chunks(entry.chunks) : ok();
}

Status ChangesetWriter::remove(std::string_view path) {
  if (state_->mode == ChangesetMode::kListing) return state_->fail(misuse("a listing holds puts only"));
  return state_->begin_record(RecordType::kDelete, path);
}

Status ChangesetWriter::remove_prefix(std::string_view path) {
  if (state_->mode == ChangesetMode::kListing) return state_->fail(misuse("a listing holds puts only"));
  return state_->begin_record(RecordType::kDeletePrefix, path);
}

Status ChangesetWriter::finish() {
  State& s = *state_;
  CAIRN_CHECK_OK(s.begin_record(RecordType::kEnd, {}));
  uint32_t crc = codec::crc32c(s.block, s.crc);
  codec::ByteWriter writer(s.block);
  writer.u8(static_cast<uint8_t>(RecordType::kEnd));
  writer.varint(s.records);
  writer.u32(crc);
  CAIRN_CHECK_OK(s.flush());
  s.finished = true;
  return ok();
}

uint64_t ChangesetWriter::raw_bytes() const { return state_->flushed_bytes + state_->block.size(); }
uint64_t ChangesetWriter::records() const { return state_->records; }

}  // namespace cairn::store
