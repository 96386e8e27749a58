#include "transfer/stat_cache.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/ids.h"
#include "base/random.h"
#include "codec/bytes.h"
#include "codec/crc32c.h"
#include "codec/digest.h"
#include "os/fd.h"
#include "os/file_system.h"
#include "os/tree.h"

namespace cairn::transfer {
namespace {

constexpr std::string_view kMagic = "CSC1";
constexpr size_t kEntryBytes = 48;
constexpr size_t kHeaderBytes = 16;
constexpr size_t kCacheFilesMax = 64;
using Key = std::array<uint8_t, 16>;

Key key_of(const FileIdentity& identity) {
  codec::Bytes bytes;
  bytes.reserve(40);
  codec::ByteWriter writer(bytes);
  writer.u64(identity.device);
  writer.u64(identity.inode);
  writer.u64(identity.size);
  writer.u64(static_cast<uint64_t>(identity.mtime_ns));
  writer.u64(static_cast<uint64_t>(identity.ctime_ns));
  codec::Digest digest = codec::sha256(bytes);
  Key key;
  std::copy_n(digest.bytes.begin(), key.size(), key.begin());
  return key;
}

}  // namespace

// Open addressing with linear probing over the keys' own (hashed) bytes.
struct StatCache::Table {
  enum class Mark : uint8_t { kFree, kOld, kUsed };
  struct Slot {
    Key key;
    ContentId content;
  };
  std::vector<Slot> slots;
  std::vector<Mark> marks;
  size_t count = 0;
  bool dirty = false;

  size_t probe(const Key& key) const {
    uint64_t hash;
    std::memcpy(&hash, key.data(), sizeof hash);
    size_t i = hash & (slots.size() - 1);
    while (marks[i] != Mark::kFree && slots[i].key != key) i = (i + 1) & (slots.size() - 1);
    return i;
  }
  void put(const Key& key, const ContentId& content, Mark mark) {
    if ((count + 1) * 10 > slots.size() * 7) grow();
    size_t i = probe(key);
    if (marks[i] == Mark::kFree) ++count;
    slots[i] = Slot{key, content};
    marks[i] = mark;
  }
  void grow() {
    std::vector<Slot> old_slots = std::move(slots);
    std::vector<Mark> old_marks = std::move(marks);
    size_t size = std::max<size_t>(1024, old_slots.size() * 2);
    slots.assign(size, Slot{});
    marks.assign(size, Mark::kFree);
    for (size_t i = 0; i < old_slots.size(); ++i) {
      if (old_marks[i] == Mark::kFree) continue;
      size_t at = probe(old_slots[i].key);
      slots[at] = old_slots[i];
      marks[at] = old_marks[i];
    }
  }
};

bool racy(int64_t timestamp_ns, int64_t other_ns, Time now) {
  constexpr int64_t kSecond = 1'000'000'000;
  bool fine = timestamp_ns % kSecond != 0 || other_ns % kSecond != 0;
  int64_t window_us = fine ? 50'000 : 2'000'000;
  // In microseconds: nanoseconds of a hostile timestamp could overflow nothing here, but its difference could.
  return timestamp_ns / 1000 > now.us - window_us;
}

StatCache::StatCache(std::string dir, const std::string& key, uint64_t max_entries)
    : dir_(dir.empty() ? std::string() : std::move(dir) + "/stat"),
      path_(codec::sha256(codec::as_bytes(key)).hex().substr(0, 32)),
      max_entries_(max_entries),
      table_(std::make_unique<Table>()) {
  table_->grow();
}

StatCache::~StatCache() = default;

void StatCache::load() {
  if (dir_.empty()) return;
  auto text = os::posix_file_system().read_file(dir_ + "/" + path_, kHeaderBytes + max_entries_ * kEntryBytes + 4);
  if (!text) return;
  codec::ByteView all = codec::as_bytes(*text);
  if (all.size() < kHeaderBytes + 4 || (all.size() - kHeaderBytes - 4) % kEntryBytes != 0) return;
  codec::ByteReader tail(all.subspan(all.size() - 4));
  if (tail.u32() != codec::crc32c(all.first(all.size() - 4))) return;
  codec::ByteReader reader(all.first(all.size() - 4));
  reader.expect(kMagic);
  reader.expect_zeros(4);
  uint64_t count = reader.u64();
  if (!reader.ok() || count != reader.remaining() / kEntryBytes) return;
  std::lock_guard lock(mutex_);
  for (uint64_t i = 0; i < count; ++i) {
    codec::ByteView bytes = reader.bytes(kEntryBytes);
    Key key;
    ContentId content;
    std::copy_n(bytes.begin(), key.size(), key.begin());
    content = ContentId::from_bytes(bytes.subspan(key.size()));
    table_->put(key, content, Table::Mark::kOld);
  }
}

Status StatCache::save() {
  if (dir_.empty()) return ok();
  codec::Bytes bytes;
  {
    std::lock_guard lock(mutex_);
    if (!table_->dirty) return ok();
    uint64_t count = std::min<uint64_t>(table_->count, max_entries_);
    bytes.reserve(kHeaderBytes + count * kEntryBytes + 4);
    codec::ByteWriter writer(bytes);
    writer.bytes(kMagic);
    writer.zeros(4);
    writer.u64(count);
    uint64_t written = 0;
    for (Table::Mark wanted : {Table::Mark::kUsed, Table::Mark::kOld}) {
      for (size_t i = 0; i < table_->slots.size() && written < count; ++i) {
        if (table_->marks[i] != wanted) continue;
        writer.bytes(table_->slots[i].key);
        writer.bytes(table_->slots[i].content.view());
        ++written;
      }
    }
    writer.u32(codec::crc32c(bytes));
    table_->dirty = false;
  }
  // Not synced: a cache lost or torn by a crash is detected by its checksum and costs one reading of the files.
  CAIRN_CHECK_OK(os::posix_file_system().make_directories(dir_, 0700));
  CAIRN_TRY(os::Directory folder, os::Directory::open(dir_));
  std::string temporary = path_ + ".new-" + RequestId::random(system_random()).hex();
  CAIRN_TRY(os::Fd fd, folder.create_file(temporary, 0600));
  Status written = os::write_all(fd.get(), bytes, dir_ + "/" + temporary);
  if (written) written = folder.rename(temporary, folder, path_);
  if (!written) {
    (void)folder.remove(temporary).has_value();
    return written;
  }
  CAIRN_TRY(std::vector<os::TreeEntry> files, folder.list());
  if (files.size() <= kCacheFilesMax) return ok();
  std::sort(files.begin(), files.end(),
            [](const os::TreeEntry& a, const os::TreeEntry& b) { return a.stat.mtime_ns < b.stat.mtime_ns; });
  for (size_t i = 0; i + kCacheFilesMax < files.size(); ++i) (void)folder.remove(files[i].name).has_value();
  return ok();
}

std::optional<ContentId> StatCache::find(const FileIdentity& identity) {
  Key key = key_of(identity);
  std::lock_guard lock(mutex_);
  size_t i = table_->probe(key);
  if (table_->marks[i] == Table::Mark::kFree) return std::nullopt;
  table_->marks[i] = Table::Mark::kUsed;
  return table_->slots[i].content;
}

void StatCache::insert(const FileIdentity& identity, const ContentId& content, Time hashed_at) {
  if (racy(identity.mtime_ns, identity.ctime_ns, hashed_at) || racy(identity.ctime_ns, identity.mtime_ns, hashed_at)) return;
  insert_entry(identity, content);
}

void StatCache::insert_written(const FileIdentity& identity, const ContentId& content, Time written_at) {
  if (racy(identity.mtime_ns, identity.ctime_ns, written_at)) return;
  insert_entry(identity, content);
}

void StatCache::insert_entry(const FileIdentity& identity, const ContentId& content) {
  Key key = key_of(identity);
  std::lock_guard lock(mutex_);
  size_t i = table_->probe(key);
  bool known = table_->marks[i] != Table::Mark::kFree;
  if (known && table_->slots[i].content == content) {
    table_->marks[i] = Table::Mark::kUsed;
    return;
  }
  if (!known && table_->count >= 2 * max_entries_) return;
  table_->put(key, content, Table::Mark::kUsed);
  table_->dirty = true;
}

uint64_t StatCache::size() const {
  std::lock_guard lock(mutex_);
  return table_->count;
}

}  // namespace cairn::transfer
