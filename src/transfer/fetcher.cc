#include "transfer/fetcher.h"

#include <algorithm>

#include "base/limits.h"
#include "store/paths.h"
#include "transfer/pin_again.h"

namespace cairn::transfer {
namespace {

constexpr size_t kWishesMax = 32'768;
constexpr uint64_t kRangeBytesMax = 8 << 20;
constexpr uint64_t kGapBytesMax = 128 << 10;
constexpr size_t kUrlsKept = 4096;
constexpr Duration kUrlLife = minutes(10);  // URLs live 30 minutes at most

// A put alone would find the file unchanged and send nothing.
std::string mending_hint(const std::string& volume) {
  return "remove it (cairn volumes rm " + volume + " PATH) and put it again from its source";
}

}  // namespace

Fetcher::Fetcher(Remote& remote, const PinGrant& pin, const Options& options, Progress& progress, const Deadline& deadline)
    : remote_(remote),
      pin_(pin),
      options_(options),
      progress_(progress),
      deadline_(deadline),
      pace_(options.bytes_per_second),
      ranges_(2 * std::max(1u, options.jobs)),
      error_([this] {
        ranges_.abort();
        std::lock_guard lock(mutex_);
        settled_.notify_all();
      }) {
  for (unsigned i = 0; i < std::max(1u, options.jobs); ++i) threads_.emplace_back([this] { fetch_ranges(); });
}

Fetcher::~Fetcher() {
  ranges_.abort();
  for (std::thread& thread : threads_) thread.join();
}

Status Fetcher::want(const store::ChunkRef& chunk, std::shared_ptr<ChunkSink> sink, uint64_t offset) {
  if (chunk.raw_len == 0 || chunk.raw_len > limits::kChunkBytesMax || chunk.place.stored_len > limits::kChunkBytesMax + 1024 ||
      uint64_t{chunk.place.offset} + chunk.place.stored_len > limits::kPackBytesMax) {
    return Error(Code::kDataCorrupt, "'" + store::escape_for_display(sink->name()) + "' names a chunk of impossible size");
  }
  wishes_.push_back(Wish{chunk, Target{std::move(sink), offset}});
  wished_bytes_ += chunk.raw_len;
  if (wished_bytes_ >= options_.batch_bytes || wishes_.size() >= kWishesMax) return dispatch();
  return ok();
}

Status Fetcher::dispatch() {
  CAIRN_CHECK_OK(error_.status());
  CAIRN_CHECK_OK(deadline_.check());
  std::vector<Wish> wishes = std::move(wishes_);
  wishes_.clear();
  wished_bytes_ = 0;
  std::stable_sort(wishes.begin(), wishes.end(), [](const Wish& a, const Wish& b) {
    if (a.chunk.place.pack != b.chunk.place.pack) return a.chunk.place.pack < b.chunk.place.pack;
    return a.chunk.place.offset < b.chunk.place.offset;
  });
  std::vector<PackId> packs;
  for (const Wish& wish : wishes) {
    if (packs.empty() || packs.back() != wish.chunk.place.pack) packs.push_back(wish.chunk.place.pack);
  }
  CAIRN_TRY(auto urls, urls_of(packs));
  Range range;
  auto send = [&]() -> Status {
    if (range.pieces.empty()) return ok();
    range.url = urls[range.pack];
    {
      std::lock_guard lock(mutex_);
      ++open_;
    }
    if (!ranges_.push(std::move(range))) return error_.status();
    range = Range();
    return ok();
  };
  for (Wish& wish : wishes) {
    const store::Place& place = wish.chunk.place;
    uint64_t end = uint64_t{place.offset} + store::kFrameHeaderBytes + place.stored_len;
    bool same_pack = !range.pieces.empty() && range.pack == place.pack;
    if (same_pack && range.pieces.back().chunk == wish.chunk) {
      range.pieces.back().targets.push_back(std::move(wish.target));
      continue;
    }
    bool joins = same_pack && place.offset <= range.offset + range.length + kGapBytesMax && end - range.offset <= kRangeBytesMax;
    if (!joins) {
      CAIRN_CHECK_OK(send());
      range.pack = place.pack;
      range.offset = place.offset;
    }
    range.length = std::max(range.length, end - range.offset);
    Piece piece;
    piece.chunk = wish.chunk;
    piece.targets.push_back(std::move(wish.target));
    range.pieces.push_back(std::move(piece));
  }
  return send();
}

Result<std::vector<PackUrl>> Fetcher::ask_urls(std::span<const PackId> packs) {
  std::lock_guard lock(pin_mutex_);
  auto urls = remote_.get_urls(pin_.pin, packs, deadline_);
  if (urls || urls.error().code() != Code::kPinNotFound) return urls;
  // The pin died (a laptop that slept for a day): the same snapshot is pinned again, if it is still kept.
  CAIRN_TRY(pin_, pin_again(remote_, pin_, deadline_));
  return remote_.get_urls(pin_.pin, packs, deadline_);
}

Result<std::unordered_map<PackId, std::string>> Fetcher::urls_of(const std::vector<PackId>& packs) {
  Duration now = system_clock().monotonic();
  if (urls_.size() > kUrlsKept || now - urls_since_ > kUrlLife) urls_.clear();
  if (urls_.empty()) urls_since_ = now;
  std::vector<PackId> missing;
  for (const PackId& pack : packs) {
    if (!urls_.contains(pack)) missing.push_back(pack);
  }
  if (!missing.empty()) {
    CAIRN_TRY(std::vector<PackUrl> answer, ask_urls(missing));
    for (PackUrl& url : answer) urls_[url.pack] = std::move(url.url);
  }
  std::unordered_map<PackId, std::string> found;
  for (const PackId& pack : packs) found[pack] = urls_[pack];
  return found;
}

void Fetcher::fetch_ranges() {
  std::vector<uint8_t> stored;
  std::vector<uint8_t> raw;
  store::FrameDecoder decoder;
  while (std::optional<Range> range = ranges_.pop()) {
    Status fetched = fetch(*range, stored, raw, decoder);
    if (!fetched) error_.report(std::move(fetched).error());
    range.reset();
    std::lock_guard lock(mutex_);
    --open_;
    settled_.notify_all();
  }
}

Status Fetcher::fetch(Range& range, std::vector<uint8_t>& stored, std::vector<uint8_t>& raw, store::FrameDecoder& decoder) {
  CAIRN_CHECK_OK(pace_.wait_for(range.length, deadline_));
  stored.resize(range.length);
  size_t delivered = 0;
  for (int tries = 1;; ++tries) {
    Status got = remote_.get_range(range.url, range.offset, stored, deadline_);
    if (!got && got.error().code() == Code::kUrlInvalid && tries <= 2) {
      CAIRN_TRY(std::vector<PackUrl> fresh, ask_urls(std::span<const PackId>(&range.pack, 1)));
      range.url = fresh.front().url;
      continue;
    }
    if (!got) {
      std::string path = store::escape_for_display(range.pieces.front().targets.front().sink->name());
      if (got.error().code() == Code::kObjectNotFound) {
        return Error(Code::kDataCorrupt, "'" + path + "' is damaged in the store: pack " + range.pack.hex() + " is missing",
                     mending_hint(remote_.volume_name()));
      }
      return std::move(got).error().while_doing("reading '" + path + "'");
    }
    progress_.bytes_moved.fetch_add(range.length);
    Status status = deliver(range, stored, raw, decoder, delivered);
    // Damage on the way is cured by reading once more; damage in the store is not.
    if (status || status.error().code() != Code::kChunkCorrupt || tries > 1) return status;
  }
}

Status Fetcher::deliver(const Range& range, const std::vector<uint8_t>& stored, std::vector<uint8_t>& raw,
                        store::FrameDecoder& decoder, size_t& delivered) {
  for (; delivered < range.pieces.size(); ++delivered) {
    const Piece& piece = range.pieces[delivered];
    const store::Place& place = piece.chunk.place;
    codec::ByteView frame(stored.data() + (place.offset - range.offset), store::kFrameHeaderBytes + place.stored_len);
    raw.resize(piece.chunk.raw_len);
    Status decoded = decoder.decode_into(frame, raw, &piece.chunk.hash);
    if (!decoded) {
      return Error(Code::kChunkCorrupt,
                   "'" + store::escape_for_display(piece.targets.front().sink->name()) + "' is damaged in the store: chunk " +
                       piece.chunk.hash.hex().substr(0, 16) + " at offset " + std::to_string(place.offset) + " of pack " +
                       place.pack.hex() + ": " + decoded.error().message(),
                   mending_hint(remote_.volume_name()));
    }
    progress_.chunks_new.fetch_add(1);
    for (const Target& target : piece.targets) CAIRN_CHECK_OK(target.sink->write(target.offset, raw));
  }
  return ok();
}

Status Fetcher::drain() {
  if (!wishes_.empty()) CAIRN_CHECK_OK(dispatch());
  std::unique_lock lock(mutex_);
  settled_.wait(lock, [&] { return open_ == 0 || error_.failed(); });
  return error_.status();
}

}  // namespace cairn::transfer
