#include "store/store_header.h"

#include <fmt/format.h>

#include "codec/crc32c.h"
#include "store/chunker.h"
#include "store/encoding.h"

namespace cairn::store {

namespace {

constexpr std::string_view kHeaderMagic = "CAIRNSTO";
constexpr std::string_view kEpochMagic = "CAIRNEPO";
constexpr std::string_view kRecordMagic = "CSR1";
constexpr uint16_t kFormatVersion = 1;
constexpr uint8_t kFlagZstd = 1;
constexpr size_t kRecordRootBytesMax = 256;

struct TextLimit {
  std::string SnapshotRecord::*text;
  size_t bytes_max;
  const char* name;
};
constexpr TextLimit kTexts[] = {
    {&SnapshotRecord::kind, 32, "kind"},
    {&SnapshotRecord::author, 256, "author"},
    {&SnapshotRecord::reason, 256, "reason"},
    {&SnapshotRecord::message, 4096, "message"},
    {&SnapshotRecord::volume_name, limits::kVolumeNameBytesMax, "volume name"},
};

Error corrupt(std::string_view what) { return Error(Code::kDataCorrupt, fmt::format("damaged {}", what)); }

void append_crc(Bytes& bytes) {
  uint32_t crc = codec::crc32c(bytes);
  codec::ByteWriter(bytes).u32(crc);
}

// The bytes before the checksum, when it is right.
std::optional<ByteView> without_crc(ByteView bytes) {
  if (bytes.size() < 4) return std::nullopt;
  ByteView body = bytes.first(bytes.size() - 4);
  codec::ByteReader reader(bytes.last(4));
  if (reader.u32() != codec::crc32c(body)) return std::nullopt;
  return body;
}

template <class T>
T read_id(codec::ByteReader& reader) {
  ByteView view = reader.bytes(T::kSize);
  return view.size() == T::kSize ? T::from_bytes(view.data()) : T();
}

}  // namespace

StoreHeader new_store_header(const StoreId& store, Time created, uint64_t first_epoch) {
  StoreHeader header;
  header.store = store;
  header.format_version = kFormatVersion;
  header.chunker = kChunkerGear1;
  header.gear_seed = kGearSeed;
  header.created = created;
  header.first_epoch = first_epoch;
  return header;
}

object::ObjectKey store_header_key(const StoreId& store) {
  return object::ObjectKey::of(fmt::format("s/{}/header", store.hex()));
}

Bytes encode_store_header(const StoreHeader& header) {
  Bytes bytes;
  codec::ByteWriter writer(bytes);
  writer.bytes(kHeaderMagic);
  writer.u16(header.format_version);
  writer.u8(header.zstd_allowed ? kFlagZstd : 0);
  writer.u8(0);
  writer.u32(header.chunker);
  writer.u64(header.gear_seed);
  writer.bytes(ByteView(header.store.bytes()));
  writer.u64(static_cast<uint64_t>(header.created.us));
  writer.u64(header.first_epoch);
  append_crc(bytes);
  return bytes;
}

Result<StoreHeader> decode_store_header(ByteView bytes) {
  codec::ByteReader start(bytes);
  if (!start.expect(kHeaderMagic)) return corrupt("store header");
  StoreHeader header;
  header.format_version = start.u16();
  if (start.ok() && header.format_version != kFormatVersion) {
    return Error(Code::kFormatUnsupported,
                 fmt::format("the store has format version {}; this build knows {}", header.format_version, kFormatVersion),
                 "use the cairn version that wrote it, or a newer one");
  }
  auto body = without_crc(bytes);
  if (!body) return corrupt("store header");
  codec::ByteReader reader(*body);
  reader.skip(kHeaderMagic.size() + 2);
  uint8_t flags = reader.u8();
  reader.expect_zeros(1);
  header.chunker = reader.u32();
  header.gear_seed = reader.u64();
  header.store = read_id<StoreId>(reader);
  header.created = Time{static_cast<int64_t>(reader.u64())};
  header.first_epoch = reader.u64();
  if (!reader.finished()) return corrupt("store header");
  if (header.chunker != kChunkerGear1 || header.gear_seed != kGearSeed || flags > kFlagZstd) {
    return Error(Code::kFormatUnsupported,
                 fmt::format("the store uses chunker {} with seed {:x} and flags {}, which this build does not know",
                             header.chunker, header.gear_seed, flags));
  }
  header.zstd_allowed = flags == kFlagZstd;
  return header;
}

std::string epoch_prefix(const StoreId& store) { return fmt::format("s/{}/epoch/", store.hex()); }

object::ObjectKey epoch_key(const StoreId& store, uint64_t epoch) {
  return object::ObjectKey::of(fmt::format("s/{}/epoch/{:016x}", store.hex(), epoch));
}

Bytes encode_epoch(const StoreId& store, uint64_t epoch) {
  Bytes bytes;
  codec::ByteWriter writer(bytes);
  writer.bytes(kEpochMagic);
  writer.bytes(ByteView(store.bytes()));
  writer.u64(epoch);
  append_crc(bytes);
  return bytes;
}

Result<uint64_t> decode_epoch(const StoreId& store, ByteView bytes) {
  auto body = without_crc(bytes);
  if (!body) return corrupt("epoch object");
  codec::ByteReader reader(*body);
  reader.expect(kEpochMagic);
  StoreId named = read_id<StoreId>(reader);
  uint64_t epoch = reader.u64();
  if (!reader.finished() || named != store) return corrupt("epoch object");
  return epoch;
}

std::string snapshot_record_prefix(const StoreId& store, const VolumeId& volume) {
  return fmt::format("s/{}/r/{}/", store.hex(), volume.hex());
}

object::ObjectKey snapshot_record_key(const StoreId& store, const SnapshotRecord& record) {
  return object::ObjectKey::of(fmt::format("{}{:016x}-{}", snapshot_record_prefix(store, record.volume), record.number,
                                           record.snapshot.hex()));
}

Result<Bytes> encode_snapshot_record(const SnapshotRecord& record) {
  Bytes bytes;
  codec::ByteWriter writer(bytes);
  writer.bytes(kRecordMagic);
  writer.bytes(ByteView(record.snapshot.bytes()));
  writer.bytes(ByteView(record.volume.bytes()));
  writer.u64(record.number);
  writer.u64(record.base_number);
  writer.bytes(record.base_digest.view());
  writer.u64(record.fence);
  writer.u64(record.epoch);
  writer.u64(static_cast<uint64_t>(record.created.us));
  writer.prefixed(ByteView(encode_root(record.root)));
  for (const TextLimit& limit : kTexts) {
    const std::string& text = record.*limit.text;
    if (text.size() > limit.bytes_max) {
      return Error(Code::kLimitExceeded, fmt::format("a snapshot's {} has at most {} bytes, this one has {}", limit.name,
                                                     limit.bytes_max, text.size()));
    }
    writer.prefixed(text);
  }
  append_crc(bytes);
  return bytes;
}

Result<SnapshotRecord> decode_snapshot_record(ByteView bytes) {
  auto body = without_crc(bytes);
  if (!body) return corrupt("snapshot record");
  codec::ByteReader reader(*body);
  reader.expect(kRecordMagic);
  SnapshotRecord record;
  record.snapshot = read_id<SnapshotId>(reader);
  record.volume = read_id<VolumeId>(reader);
  record.number = reader.u64();
  record.base_number = reader.u64();
  record.base_digest = read_digest(reader);
  record.fence = reader.u64();
  record.epoch = reader.u64();
  record.created = Time{static_cast<int64_t>(reader.u64())};
  ByteView root = reader.prefixed(kRecordRootBytesMax);
  for (const TextLimit& limit : kTexts) record.*limit.text = codec::as_text(reader.prefixed(limit.bytes_max));
  if (!reader.finished()) return corrupt("snapshot record");
  CAIRN_TRY(record.root, decode_root(root));
  return record;
}

}  // namespace cairn::store
