#include "object/retrying_store.h"

#include <algorithm>
#include <optional>
#include <type_traits>

#include "codec/crc32c.h"
#include "object/range.h"

namespace cairn::object {
namespace {

constexpr uint64_t kCompareBytes = 1 << 20;

bool is_worth_retrying(const Error& error) {
  return retry_class(error.code()) == RetryClass::kBackoff || retry_class(error.code()) == RetryClass::kReadBack;
}

Error outcome_unknown(const ObjectKey& key, const Error& last) {
  return Error(Code::kOutcomeUnknown, "object " + key.text() + " may or may not have been stored: " + last.message(),
               "ask again: what was stored is recognised");
}

}  // namespace

RetryingStore::RetryingStore(ObjectStore& inner, Clock& clock, Random& random, RetryOptions options)
    : inner_(inner), clock_(clock), random_(random), options_(options) {}

bool RetryingStore::pause(int attempt, const Deadline& deadline) {
  if (attempt + 1 >= options_.attempts_max || deadline.expired()) return false;
  Duration longest = options_.first_pause * (int64_t{1} << std::min(attempt, 20));
  longest = std::min(longest, options_.longest_pause);
  uint64_t jitter;
  {
    std::lock_guard lock(random_mutex_);
    jitter = random_.below(static_cast<uint64_t>(longest.count()) / 2 + 1);
  }
  Duration chosen = longest - Duration(static_cast<int64_t>(jitter));
  if (chosen >= deadline.remaining()) return false;
  clock_.sleep_for(chosen);
  return !deadline.expired();
}

template <class Call>
auto RetryingStore::retry(const Deadline& deadline, Call call) -> decltype(call()) {
  for (int attempt = 0;; ++attempt) {
    auto result = call();
    if (result || !is_worth_retrying(result.error()) || !pause(attempt, deadline)) return result;
  }
}

Status RetryingStore::compare(const ObjectKey& key, uint64_t size, uint32_t crc32c, const Deadline& deadline) {
  CAIRN_TRY(ObjectInfo info, head(key, deadline));
  if (info.size != size) return object_exists(key);
  if (info.crc_known) return info.crc32c == crc32c ? ok() : Status(object_exists(key));
  uint32_t found = 0;
  for (uint64_t at = 0; at < size; at += kCompareBytes) {
    CAIRN_TRY(Bytes bytes, get(key, at, std::min(kCompareBytes, size - at), deadline));
    found = codec::crc32c(bytes, found);
  }
  return found == crc32c ? ok() : Status(object_exists(key));
}

class RetryingWriter final : public ObjectWriter {
 public:
  RetryingWriter(RetryingStore& store, ObjectKey key, uint64_t size, std::unique_ptr<ObjectWriter> inner,
                 Deadline deadline)
      : store_(store), key_(std::move(key)), size_(size), inner_(std::move(inner)), deadline_(std::move(deadline)) {}

  Status append(ByteView data) override {
    CAIRN_CHECK_OK(inner_->append(data));
    crc_ = codec::crc32c(data, crc_);
    return ok();
  }
  Status commit() override {
    Status committed = inner_->commit();
    if (committed || !is_worth_retrying(committed.error())) return committed;
    Status compared = store_.compare(key_, size_, crc_, deadline_);
    if (compared || compared.error().code() == Code::kObjectExists) return compared;
    if (compared.error().code() == Code::kObjectNotFound) return committed;
    return outcome_unknown(key_, committed.error());
  }

 private:
  RetryingStore& store_;
  ObjectKey key_;
  uint64_t size_;
  uint32_t crc_ = 0;
  std::unique_ptr<ObjectWriter> inner_;
  Deadline deadline_;
};

class RetryingReader final : public ObjectReader {
 public:
  RetryingReader(RetryingStore& store, std::unique_ptr<ObjectReader> inner, Deadline deadline)
      : store_(store), inner_(std::move(inner)), deadline_(std::move(deadline)) {}
  uint64_t size() const override { return inner_->size(); }
  Result<size_t> read_at(uint64_t offset, std::span<uint8_t> out) override {
    return store_.retry(deadline_, [&]() -> Result<size_t> {
      CAIRN_TRY(size_t got, inner_->read_at(offset, out));
      // Nothing, before the end, is a connection that closed early.
      if (got == 0 && !out.empty() && offset < inner_->size())
        return Error(Code::kStoreUnavailable, "the read came back empty");
      return got;
    });
  }
  int native_fd() const override { return inner_->native_fd(); }

 private:
  RetryingStore& store_;
  std::unique_ptr<ObjectReader> inner_;
  Deadline deadline_;
};

Result<std::unique_ptr<ObjectWriter>> RetryingStore::create(const ObjectKey& key, uint64_t size,
                                                            const Deadline& deadline) {
  CAIRN_TRY(std::unique_ptr<ObjectWriter> writer, retry(deadline, [&] { return inner_.create(key, size, deadline); }));
  return std::unique_ptr<ObjectWriter>(std::make_unique<RetryingWriter>(*this, key, size, std::move(writer), deadline));
}

Result<std::unique_ptr<ObjectReader>> RetryingStore::open(const ObjectKey& key, const Deadline& deadline) {
  CAIRN_TRY(std::unique_ptr<ObjectReader> reader, retry(deadline, [&] { return inner_.open(key, deadline); }));
  return std::unique_ptr<ObjectReader>(std::make_unique<RetryingReader>(*this, std::move(reader), deadline));
}

Status RetryingStore::put_if_absent(const ObjectKey& key, ByteView data, const Deadline& deadline) {
  CAIRN_CHECK_OK(deadline.check());
  std::optional<Error> unknown;
  for (int attempt = 0;; ++attempt) {
    Status put = inner_.put_if_absent(key, data, deadline);
    if (put) return put;
    if (put.error().code() == Code::kObjectExists && unknown) {
      Status compared = compare(key, data.size(), codec::crc32c(data), deadline);
      if (!compared && is_worth_retrying(compared.error())) return outcome_unknown(key, compared.error());
      return compared;
    }
    if (!is_worth_retrying(put.error())) return unknown ? Status(outcome_unknown(key, put.error())) : put;
    unknown = put.error();
    if (!pause(attempt, deadline)) return outcome_unknown(key, *unknown);
  }
}

Result<Bytes> RetryingStore::get(const ObjectKey& key, uint64_t offset, uint64_t length, const Deadline& deadline) {
  return retry(deadline, [&]() -> Result<Bytes> {
    CAIRN_TRY(Bytes bytes, inner_.get(key, offset, length, deadline));
    if (bytes.size() == length) return bytes;
    return Error(Code::kStoreUnavailable, "reading object " + key.text() + ": " + std::to_string(bytes.size()) +
                                              " of " + std::to_string(length) + " bytes came");
  });
}

Result<ObjectInfo> RetryingStore::head(const ObjectKey& key, const Deadline& deadline) {
  return retry(deadline, [&] { return inner_.head(key, deadline); });
}

Status RetryingStore::remove(const ObjectKey& key, const Deadline& deadline) {
  return retry(deadline, [&] { return inner_.remove(key, deadline); });
}

Result<ListPage> RetryingStore::list(const std::string& prefix, const std::string& after, size_t limit,
                                     const Deadline& deadline) {
  return retry(deadline, [&] { return inner_.list(prefix, after, limit, deadline); });
}

}  // namespace cairn::object
