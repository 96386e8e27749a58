#include "transfer/api_remote.h"

#include <algorithm>

#include "api/types.h"
#include "client/api_client.h"

namespace cairn::transfer {
namespace {

constexpr size_t kResumablePacksMax = 100'000;

PinGrant pin_of(const api::Pin& pin) {
  PinGrant grant;
  grant.pin = pin.pin;
  grant.snapshot = pin.snapshot;
  grant.root = pin.root;
  grant.entries = pin.entries;
  grant.files = pin.files;
  grant.bytes = pin.bytes;
  return grant;
}

api::PublishKind publish_kind(const std::string& kind) {
  if (kind == "checkpoint") return api::PublishKind::kCheckpoint;
  if (kind == "final") return api::PublishKind::kFinal;
  if (kind == "log") return api::PublishKind::kLog;
  if (kind == "save") return api::PublishKind::kSave;
  return api::PublishKind::kPut;
}

class ApiRemote final : public Remote {
 public:
  ApiRemote(client::ApiClient& client, std::string volume) : client_(client), volume_(std::move(volume)) {}

  std::string volume_name() const override { return volume_; }
  std::string scope() const override {
    return client_.options().url + "\n" + client_.options().team + "\n" + volume_;
  }

  Result<UploadGrant> open_upload(const std::string& source, const std::string& secret, Deadline deadline) override {
    api::OpenUpload body;
    body.source = source;
    body.takeover_secret = secret;
    CAIRN_TRY(api::Upload upload, client_.open_upload(volume_, body, deadline));
    UploadGrant grant;
    grant.upload = upload.upload;
    grant.lease = upload.lease;
    grant.secret = upload.secret;
    grant.fence = upload.fence;
    grant.base = pin_of(upload.base);
    return grant;
  }

  Status heartbeat(const UploadGrant& grant, Deadline deadline) override {
    api::Heartbeat body;
    body.secret = grant.secret;
    CAIRN_TRY(api::HeartbeatAnswer answer, client_.heartbeat_upload(grant.upload, body, deadline));
    (void)answer;
    return ok();
  }

  Result<std::vector<PackSlot>> exchange_packs(const UploadGrant& grant, std::span<const PackId> registered,
                                               std::span<const PackPromise> promises, Deadline deadline) override {
    api::RequestPacks body;
    body.secret = grant.secret;
    body.to_register.assign(registered.begin(), registered.end());
    for (const PackPromise& promise : promises) {
      api::PackPromise wanted;
      wanted.size_bytes = promise.size_bytes;
      wanted.crc32c = promise.crc32c;
      wanted.kind = promise.kind == PackKind::kData ? api::PackKind::kData : api::PackKind::kChangeset;
      body.promise.push_back(wanted);
    }
    CAIRN_TRY(api::PackGrant answer, client_.request_packs(grant.upload, body, deadline));
    std::vector<PackSlot> slots;
    for (const api::PackUrl& pack : answer.promised) slots.push_back(PackSlot{pack.pack, pack.url});
    return slots;
  }

  Result<std::vector<PackUrl>> resumable_packs(const UploadGrant& grant, Deadline deadline) override {
    api::RequestResumable body;
    body.secret = grant.secret;
    std::vector<PackUrl> packs;
    while (true) {
      CAIRN_TRY(api::ResumablePacks answer, client_.resumable_packs(grant.upload, body, deadline));
      for (const api::ResumablePack& pack : answer.packs) packs.push_back(PackUrl{pack.pack, pack.url, pack.size_bytes});
      if (!answer.more || answer.packs.empty() || packs.size() >= kResumablePacksMax) return packs;
      body.after = answer.packs.back().pack;
    }
  }

  Status put_object(const PackSlot& slot, std::span<const uint8_t> bytes, Deadline deadline) override {
    return client_.persist([&]() -> Status {
      Status put = client_.put_object(slot.url, bytes, deadline);
      // An earlier try arrived; whether whole is checked by the server when the pack is registered.
      if (!put && put.error().code() == Code::kObjectExists) return ok();
      return put;
    }, deadline);
  }

  Result<Published> publish(const UploadGrant& grant, const PublishRequest& request, Deadline deadline) override {
    api::Publish body;
    body.secret = grant.secret;
    body.changeset = request.changeset;
    body.kind = publish_kind(request.kind);
    body.message = request.message.empty() ? request.reason : request.message;
    body.interim = body.kind == api::PublishKind::kCheckpoint || body.kind == api::PublishKind::kLog;
    CAIRN_TRY(api::Published answer, client_.publish(grant.upload, body, deadline));
    Published published;
    published.snapshot = answer.snapshot;
    published.side = answer.side;
    published.side_reason = answer.side_reason;
    published.files = answer.files;
    published.bytes = answer.bytes;
    return published;
  }

  Status close_upload(const UploadGrant& grant, Deadline deadline) override {
    api::CloseUpload body;
    body.secret = grant.secret;
    return client_.close_upload(grant.upload, body, deadline);
  }

  Result<PinGrant> pin(std::optional<uint64_t> snapshot, Deadline deadline) override {
    api::CreatePin body;
    body.snapshot = snapshot.value_or(0);
    CAIRN_TRY(api::Pin pin, client_.create_pin(volume_, body, deadline));
    return pin_of(pin);
  }

  Status unpin(const PinId& pin, Deadline deadline) override { return client_.delete_pin(pin, deadline); }

  // The API names one level by `ls`; its answer for a file is the file itself, for a folder what is in it.
  Result<std::optional<RemoteStat>> stat(const PinId& pin, const std::string& path, Deadline deadline) override {
    if (path.empty()) return std::optional<RemoteStat>(RemoteStat{EntryKind::kDirectory, 0});
    api::EntriesQuery query;
    query.pin = pin;
    query.path = path;
    query.limit = 1;
    auto page = client_.list_entries(volume_, query, deadline);
    if (!page && page.error().code() == Code::kPathNotFound) return std::optional<RemoteStat>();
    if (!page) return std::move(page).error();
    RemoteStat stat{EntryKind::kDirectory, 0};
    if (!page->entries.empty() && page->entries.front().path == path) {
      const api::Entry& entry = page->entries.front();
      if (entry.kind == "file") stat.kind = EntryKind::kFile;
      else if (entry.kind == "symlink") stat.kind = EntryKind::kSymlink;
      stat.size_bytes = entry.size_bytes;
    }
    return std::optional<RemoteStat>(stat);
  }

  Result<ListingPage> listing(const PinId& pin, const std::string& path, const ListingCursor& from, uint64_t max_bytes,
                              Deadline deadline) override {
    api::ListingQuery query;
    query.pin = pin;
    query.path = path;
    query.max_bytes = max_bytes;
    if (!from.after.empty() || from.chunk_after != 0) query.after = api::ListingCursor{from.after, from.chunk_after};
    CAIRN_TRY(api::ListingPage answer, client_.listing(volume_, query, deadline));
    ListingPage page;
    page.changeset = std::move(answer.changeset);
    if (answer.next) page.next = ListingCursor{answer.next->path, answer.next->chunks};
    return page;
  }

  Result<std::vector<PackUrl>> get_urls(const PinId& pin, std::span<const PackId> packs, Deadline deadline) override {
    std::vector<PackUrl> urls;
    while (!packs.empty()) {
      std::span<const PackId> part = packs.first(std::min<size_t>(packs.size(), api::kPacksPerRequestMax));
      api::RequestUrls body;
      body.pin = pin;
      body.packs.assign(part.begin(), part.end());
      CAIRN_TRY(api::UrlGrant answer, client_.request_urls(volume_, body, deadline));
      if (answer.urls.size() != part.size()) return Error(Code::kInternal, "the server answered another number of URLs than was asked for");
      for (size_t i = 0; i < part.size(); ++i) {
        if (answer.urls[i].pack != part[i]) return Error(Code::kInternal, "the server answered the URL of another pack");
        urls.push_back(PackUrl{answer.urls[i].pack, answer.urls[i].url, answer.urls[i].size_bytes});
      }
      packs = packs.subspan(part.size());
    }
    return urls;
  }

  Status get_range(const std::string& url, uint64_t offset, std::span<uint8_t> out, Deadline deadline) override {
    return client_.persist([&] { return client_.get_object(url, offset, out, deadline); }, deadline);
  }

 private:
  client::ApiClient& client_;
  const std::string volume_;
};

}  // namespace

std::unique_ptr<Remote> make_api_remote(client::ApiClient& client, const std::string& volume) {
  return std::make_unique<ApiRemote>(client, volume);
}

}  // namespace cairn::transfer
