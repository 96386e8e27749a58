#include "testing/faulty_object_store.h"

#include <fmt/format.h>

namespace cairn::testing {

std::string FaultPlan::to_string() const {
  return fmt::format("FaultPlan seed={} fail={} applied_but_failed={} short_read={} corrupt_read={} delay={}x{}us",
                     seed, fail, applied_but_failed, short_read, corrupt_read, delay, delay_by.count());
}

class FaultyWriter final : public object::ObjectWriter {
 public:
  FaultyWriter(FaultyObjectStore& store, std::unique_ptr<object::ObjectWriter> inner)
      : store_(store), inner_(std::move(inner)) {}
  Status append(object::ByteView data) override { return inner_->append(data); }
  Status commit() override {
    CAIRN_CHECK_OK(store_.before("commit"));
    return store_.after(inner_->commit(), "commit");
  }

 private:
  FaultyObjectStore& store_;
  std::unique_ptr<object::ObjectWriter> inner_;
};

class FaultyReader final : public object::ObjectReader {
 public:
  FaultyReader(FaultyObjectStore& store, std::unique_ptr<object::ObjectReader> inner)
      : store_(store), inner_(std::move(inner)) {}
  uint64_t size() const override { return inner_->size(); }
  Result<size_t> read_at(uint64_t offset, std::span<uint8_t> out) override {
    CAIRN_CHECK_OK(store_.before("read"));
    CAIRN_TRY(size_t got, inner_->read_at(offset, out.first(store_.shorten(out.size()))));
    store_.corrupt(out.first(got));
    return got;
  }
  // No native_fd: what reads by itself would meet no faults.

 private:
  FaultyObjectStore& store_;
  std::unique_ptr<object::ObjectReader> inner_;
};

FaultyObjectStore::FaultyObjectStore(object::ObjectStore& inner, Clock& clock, FaultPlan plan)
    : inner_(inner), clock_(clock), plan_(plan), random_(plan.seed) {}

bool FaultyObjectStore::chance(int in_a_thousand) {
  if (!enabled_ || in_a_thousand <= 0) return false;
  std::lock_guard lock(mutex_);
  if (random_.below(1000) >= static_cast<uint64_t>(in_a_thousand)) return false;
  ++faults_;
  return true;
}

Status FaultyObjectStore::before(const char* verb) {
  if (chance(plan_.delay)) clock_.sleep_for(plan_.delay_by);
  if (chance(plan_.fail)) return Error(Code::kStoreUnavailable, std::string("injected: ") + verb + " failed");
  return ok();
}

Status FaultyObjectStore::after(Status done, const char* verb) {
  if (done && chance(plan_.applied_but_failed)) {
    return Error(Code::kStoreUnavailable, std::string("injected: ") + verb + " happened but was reported failed");
  }
  return done;
}

size_t FaultyObjectStore::shorten(size_t size) {
  if (size == 0 || !chance(plan_.short_read)) return size;
  std::lock_guard lock(mutex_);
  return random_.below(size);
}

void FaultyObjectStore::corrupt(std::span<uint8_t> bytes) {
  if (bytes.empty() || !chance(plan_.corrupt_read)) return;
  std::lock_guard lock(mutex_);
  bytes[random_.below(bytes.size())] ^= static_cast<uint8_t>(1 + random_.below(255));
}

Result<std::unique_ptr<object::ObjectWriter>> FaultyObjectStore::create(const ObjectKey& key, uint64_t size,
                                                                        const Deadline& deadline) {
  CAIRN_CHECK_OK(before("create"));
  CAIRN_TRY(std::unique_ptr<object::ObjectWriter> writer, inner_.create(key, size, deadline));
  return std::unique_ptr<object::ObjectWriter>(std::make_unique<FaultyWriter>(*this, std::move(writer)));
}

Result<std::unique_ptr<object::ObjectReader>> FaultyObjectStore::open(const ObjectKey& key, const Deadline& deadline) {
  CAIRN_CHECK_OK(before("open"));
  CAIRN_TRY(std::unique_ptr<object::ObjectReader> reader, inner_.open(key, deadline));
  return std::unique_ptr<object::ObjectReader>(std::make_unique<FaultyReader>(*this, std::move(reader)));
}

Status FaultyObjectStore::put_if_absent(const ObjectKey& key, ByteView data, const Deadline& deadline) {
  CAIRN_CHECK_OK(before("put"));
  return after(inner_.put_if_absent(key, data, deadline), "put");
}

Result<object::Bytes> FaultyObjectStore::get(const ObjectKey& key, uint64_t offset, uint64_t length,
                                             const Deadline& deadline) {
  CAIRN_CHECK_OK(before("get"));
  CAIRN_TRY(Bytes bytes, inner_.get(key, offset, length, deadline));
  bytes.resize(shorten(bytes.size()));
  corrupt(bytes);
  return bytes;
}

Result<object::ObjectInfo> FaultyObjectStore::head(const ObjectKey& key, const Deadline& deadline) {
  CAIRN_CHECK_OK(before("head"));
  return inner_.head(key, deadline);
}

Status FaultyObjectStore::remove(const ObjectKey& key, const Deadline& deadline) {
  CAIRN_CHECK_OK(before("remove"));
  return after(inner_.remove(key, deadline), "remove");
}

Result<object::ListPage> FaultyObjectStore::list(const std::string& prefix, const std::string& after_key, size_t limit,
                                                 const Deadline& deadline) {
  CAIRN_CHECK_OK(before("list"));
  return inner_.list(prefix, after_key, limit, deadline);
}

}  // namespace cairn::testing
