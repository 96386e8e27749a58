#include "object/memory_store.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/check.h"
#include "codec/crc32c.h"
#include "object/range.h"

namespace cairn::object {

class MemoryWriter final : public ObjectWriter {
 public:
  MemoryWriter(MemoryStore& store, ObjectKey key, uint64_t size) : store_(store), key_(std::move(key)), size_(size) {}

  Status append(ByteView data) override {
    if (first_error_) return *first_error_;
    if (data.size() > size_ - bytes_.size()) return fail(wrong_size(key_, size_, bytes_.size() + data.size()));
    bytes_.insert(bytes_.end(), data.begin(), data.end());
    return ok();
  }
  Status commit() override {
    if (first_error_) return *first_error_;
    if (bytes_.size() != size_) return fail(wrong_size(key_, size_, bytes_.size()));
    Status inserted = store_.insert(key_, std::move(bytes_));
    first_error_ =
        inserted ? Error(Code::kInternal, "object " + key_.text() + " was committed before") : inserted.error();
    return inserted;
  }

 private:
  Error fail(Error error) {
    first_error_ = error;
    return error;
  }
  MemoryStore& store_;
  ObjectKey key_;
  uint64_t size_;
  Bytes bytes_;
  std::optional<Error> first_error_;
};

namespace {

class MemoryReader final : public ObjectReader {
 public:
  explicit MemoryReader(std::shared_ptr<const Bytes> bytes) : bytes_(std::move(bytes)) {}
  uint64_t size() const override { return bytes_->size(); }
  Result<size_t> read_at(uint64_t offset, std::span<uint8_t> out) override {
    if (offset >= bytes_->size() || out.empty()) return size_t{0};
    size_t count = std::min<size_t>(out.size(), bytes_->size() - offset);
    std::memcpy(out.data(), bytes_->data() + offset, count);
    return count;
  }

 private:
  std::shared_ptr<const Bytes> bytes_;
};

}  // namespace

Status MemoryStore::insert(const ObjectKey& key, Bytes bytes) {
  uint32_t crc = codec::crc32c(bytes);
  auto shared = std::make_shared<const Bytes>(std::move(bytes));
  std::lock_guard lock(mutex_);
  Object object;
  object.bytes = std::move(shared);
  object.crc32c = crc;
  if (!objects_.emplace(key.text(), std::move(object)).second) return object_exists(key);
  return ok();
}

Result<MemoryStore::Object> MemoryStore::find(const ObjectKey& key) const {
  std::lock_guard lock(mutex_);
  auto found = objects_.find(key.text());
  if (found == objects_.end()) return object_not_found(key);
  return found->second;
}

Result<std::unique_ptr<ObjectWriter>> MemoryStore::create(const ObjectKey& key, uint64_t size,
                                                          const Deadline& deadline) {
  CAIRN_CHECK_OK(deadline.check());
  if (find(key)) return object_exists(key);
  return std::unique_ptr<ObjectWriter>(std::make_unique<MemoryWriter>(*this, key, size));
}

Result<std::unique_ptr<ObjectReader>> MemoryStore::open(const ObjectKey& key, const Deadline& deadline) {
  CAIRN_CHECK_OK(deadline.check());
  CAIRN_TRY(Object object, find(key));
  return std::unique_ptr<ObjectReader>(std::make_unique<MemoryReader>(std::move(object.bytes)));
}

Status MemoryStore::put_if_absent(const ObjectKey& key, ByteView data, const Deadline& deadline) {
  CAIRN_CHECK_OK(deadline.check());
  return insert(key, Bytes(data.begin(), data.end()));
}

Result<Bytes> MemoryStore::get(const ObjectKey& key, uint64_t offset, uint64_t length, const Deadline& deadline) {
  CAIRN_CHECK_OK(deadline.check());
  CAIRN_TRY(Object object, find(key));
  CAIRN_CHECK_OK(check_range(key, object.bytes->size(), offset, length));
  auto first = object.bytes->begin() + static_cast<ptrdiff_t>(offset);
  return Bytes(first, first + static_cast<ptrdiff_t>(length));
}

Result<ObjectInfo> MemoryStore::head(const ObjectKey& key, const Deadline& deadline) {
  CAIRN_CHECK_OK(deadline.check());
  CAIRN_TRY(Object object, find(key));
  ObjectInfo info;
  info.size = object.bytes->size();
  info.crc32c = object.crc32c;
  info.crc_known = true;
  return info;
}

Status MemoryStore::remove(const ObjectKey& key, const Deadline& deadline) {
  CAIRN_CHECK_OK(deadline.check());
  std::lock_guard lock(mutex_);
  objects_.erase(key.text());
  return ok();
}

Result<ListPage> MemoryStore::list(const std::string& prefix, const std::string& after, size_t limit,
                                   const Deadline& deadline) {
  CAIRN_CHECK_OK(deadline.check());
  limit = std::min(limit, kListLimitMax);
  ListPage page;
  std::lock_guard lock(mutex_);
  auto at = after < prefix ? objects_.lower_bound(prefix) : objects_.upper_bound(after);
  for (; at != objects_.end() && at->first.starts_with(prefix); ++at) {
    if (page.objects.size() == limit) {
      page.more = true;
      break;
    }
    page.objects.push_back({ObjectKey::of(at->first), at->second.bytes->size()});
  }
  return page;
}

size_t MemoryStore::object_count() const {
  std::lock_guard lock(mutex_);
  return objects_.size();
}

uint64_t MemoryStore::total_bytes() const {
  std::lock_guard lock(mutex_);
  uint64_t total = 0;
  for (const auto& [key, object] : objects_) total += object.bytes->size();
  return total;
}

void MemoryStore::damage(const ObjectKey& key, uint64_t offset) {
  std::lock_guard lock(mutex_);
  auto found = objects_.find(key.text());
  CAIRN_CHECK(found != objects_.end() && offset < found->second.bytes->size());
  auto damaged = std::make_shared<Bytes>(*found->second.bytes);
  (*damaged)[offset] ^= 0x5a;
  found->second.bytes = std::move(damaged);
}

}  // namespace cairn::object
