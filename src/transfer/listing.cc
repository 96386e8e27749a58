#include "transfer/listing.h"

#include "store/paths.h"
#include "transfer/pin_again.h"

namespace cairn::transfer {
namespace {

Error hostile(const std::string& path, const char* what) {
  return Error(Code::kDataCorrupt, "the server's listing is not valid at '" + store::escape_for_display(path) + "': " + what);
}

}  // namespace

ListingStream::ListingStream(Remote& remote, const PinGrant& pin, std::string prefix, const Deadline& deadline,
                             uint64_t page_bytes)
    : remote_(remote),
      pin_(pin),
      prefix_(std::move(prefix)),
      page_bytes_(page_bytes),
      deadline_(deadline),
      pages_(2),
      thread_([this] { fetch(); }) {}

ListingStream::~ListingStream() {
  stop_.cancel();
  pages_.abort();
  thread_.join();
}

Result<ListingPage> ListingStream::fetch_page(const ListingCursor& from) {
  auto answer = remote_.listing(pin_.pin, prefix_, from, page_bytes_, deadline_);
  if (answer || answer.error().code() != Code::kPinNotFound) return answer;
  CAIRN_TRY(pin_, pin_again(remote_, pin_, deadline_));
  return remote_.listing(pin_.pin, prefix_, from, page_bytes_, deadline_);
}

void ListingStream::fetch() {
  ListingCursor cursor;
  while (!stop_.cancelled()) {
    auto answer = fetch_page(cursor);
    if (!answer) {
      pages_.push(std::move(answer).error());
      return;
    }
    bool last = !answer->next.has_value();
    if (!last) {
      bool forward = answer->next->after != cursor.after || answer->next->chunk_after > cursor.chunk_after;
      if (!forward) {
        pages_.push(hostile(cursor.after, "a page that does not go on"));
        return;
      }
      cursor = *answer->next;
    }
    if (!pages_.push(Page{std::move(answer->changeset), last}) || last) return;
  }
}

Result<bool> ListingStream::open_page() {
  if (page_ && page_->last) return false;
  reader_.reset();
  std::optional<Result<Page>> page = pages_.pop();
  if (!page) return Error(Code::kInternal, "the listing's thread ended early");
  if (!*page) return std::move(*page).error();
  page_ = std::move(**page);
  source_.emplace(page_->bytes);
  reader_ = std::make_unique<store::ChangesetReader>(*source_, store::ChangesetMode::kListing);
  return true;
}

Result<bool> ListingStream::next_record() {
  while (true) {
    if (reader_) {
      CAIRN_TRY(bool more, reader_->next(change_));
      if (more) return true;
    }
    CAIRN_TRY(bool opened, open_page());
    if (!opened) return false;
  }
}

Result<bool> ListingStream::next(SpoolEntry& entry) {
  while (chunks_due_ != 0) {
    CAIRN_TRY(std::span<const store::ChunkRef> skipped, next_chunks());
    (void)skipped;
  }
  if (done_) return false;
  CAIRN_TRY(bool more, next_record());
  if (!more) {
    done_ = true;
    return false;
  }
  const store::Entry& e = change_.entry;
  if (change_.kind != store::Change::Kind::kPut || change_.first_chunk != 0) return hostile(e.path, "it starts inside a file");
  if (!store::is_valid_path(e.path)) return hostile(e.path, "not a path");
  if (!store::is_at_or_under(e.path, prefix_)) return hostile(e.path, "not what was asked for");
  if (!last_path_.empty()) {
    if (store::path_compare(last_path_, e.path) >= 0) return hostile(e.path, "not in order");
    if (!last_is_folder_ && store::is_under(e.path, last_path_)) return hostile(e.path, "something below a file");
  }
  last_path_ = e.path;
  last_is_folder_ = e.kind == store::EntryKind::kDirectory;
  last_size_ = e.size;
  chunks_due_ = e.chunk_count;
  chunks_read_ = 0;
  entry.action = Action::kPut;
  entry.same_metadata = false;
  entry.entry = e;
  entry.entry.chunks.clear();
  entry.entry.list.reset();
  entry.local.clear();
  entry.identity = FileIdentity{};
  entry.content = ContentId{};
  return true;
}

Result<std::span<const store::ChunkRef>> ListingStream::next_chunks() {
  while (chunks_due_ != 0) {
    CAIRN_TRY(std::span<const store::ChunkRef> chunks, reader_->next_chunks());
    if (!chunks.empty()) {
      if (chunks.size() > chunks_due_) return hostile(last_path_, "too many chunks");
      chunks_due_ -= chunks.size();
      chunks_read_ += chunks.size();
      return chunks;
    }
    // The page ends inside this file: the next one goes on with it.
    CAIRN_TRY(bool more, next_record());
    const store::Entry& e = change_.entry;
    if (!more || change_.kind != store::Change::Kind::kPut || e.path != last_path_ || change_.first_chunk != chunks_read_ ||
        e.size != last_size_ || e.chunk_count != chunks_read_ + chunks_due_) {
      return hostile(last_path_, "the file's chunks do not go on in the next page");
    }
  }
  return std::span<const store::ChunkRef>();
}

}  // namespace cairn::transfer
