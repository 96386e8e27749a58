#include "testing/storage_client.h"

#include "codec/crc32c.h"
#include "codec/digest.h"
#include "store/frame.h"
#include "store/pack.h"

namespace cairn::testing {

void Changes::apply_to(Contents& contents) const {
  for (const std::string& path : deletes) {
    for (auto it = contents.lower_bound(path); it != contents.end() && store::is_at_or_under(it->first, path);) {
      it = contents.erase(it);
    }
  }
  for (const auto& [path, file] : puts) contents[path] = file.first;
}

Result<BuiltDataPack> StorageClient::promise(const volume::OpenUpload& upload,
                                             const std::vector<std::string>& contents) {
  BuiltDataPack built;
  store::PackBuilder builder(store::PackBuilder::Options{.target_bytes = limits::kMiB});
  std::vector<std::pair<std::string, store::FrameInfo>> frames;
  for (const std::string& text : contents) {
    CAIRN_TRY(store::FrameInfo frame, builder.add(codec::sha256(codec::as_bytes(text)), codec::as_bytes(text)));
    frames.emplace_back(text, frame);
  }
  CAIRN_TRY(store::BuiltPack pack, builder.finish());
  built.bytes.assign(pack.bytes.begin(), pack.bytes.end());
  volume::PackWish wish;
  wish.size_bytes = static_cast<int64_t>(built.bytes.size());
  wish.crc32c = codec::crc32c(built.bytes);
  CAIRN_TRY(std::vector<volume::PromisedPack> promised,
            volume::Uploads(context_).promise(upload.id, upload.lease.secret, {wish}));
  built.promised = promised.front();
  for (const auto& [text, frame] : frames) {
    store::ChunkRef chunk;
    chunk.hash = frame.hash;
    chunk.raw_len = frame.raw_len;
    chunk.place = store::Place{built.promised.id, frame.offset, frame.stored_len};
    built.chunks[text] = chunk;
  }
  return built;
}

Status StorageClient::put(const volume::PromisedPack& promised, codec::ByteView bytes) {
  CAIRN_TRY(object::ObjectKey key, object::ObjectKey::parse(promised.key));
  Status put = objects_.put_if_absent(key, bytes, Deadline::never());
  if (!put && put.error().code() == Code::kObjectExists) return ok();
  return put;
}

Status StorageClient::register_pack(const volume::OpenUpload& upload, PackId pack) {
  CAIRN_TRY(volume::Registration registration,
            volume::Uploads(context_).register_packs(upload.id, upload.lease.secret, {pack}));
  if (!registration.rejected.empty()) return registration.rejected.front().error;
  return ok();
}

Result<std::map<std::string, store::ChunkRef>> StorageClient::send(const volume::OpenUpload& upload,
                                                                   const std::vector<std::string>& contents) {
  if (contents.empty()) return std::map<std::string, store::ChunkRef>();
  CAIRN_TRY(BuiltDataPack built, promise(upload, contents));
  CAIRN_CHECK_OK(put(built.promised, built.bytes));
  CAIRN_CHECK_OK(register_pack(upload, built.promised.id));
  return std::move(built.chunks);
}

Result<PackId> StorageClient::send_changeset(const volume::OpenUpload& upload, const Changes& changes) {
  store::BytesSink sink;
  store::ChangesetWriter writer(sink);
  std::set<std::string, store::PathLess> paths(changes.deletes);
  for (const auto& [path, file] : changes.puts) paths.insert(path);
  for (const std::string& path : paths) {
    if (changes.deletes.contains(path)) CAIRN_CHECK_OK(writer.remove_prefix(path));
    auto put = changes.puts.find(path);
    if (put == changes.puts.end()) continue;
    store::Entry entry;
    entry.path = path;
    entry.mode = 0644;
    entry.size = put->second.first.size();
    if (put->second.second) {
      entry.chunk_count = 1;
      entry.chunks.push_back(*put->second.second);
    }
    CAIRN_CHECK_OK(writer.put_whole(entry));
  }
  CAIRN_CHECK_OK(writer.finish());
  volume::PackWish wish;
  wish.kind = volume::PackKind::kChangeset;
  wish.size_bytes = static_cast<int64_t>(sink.bytes().size());
  wish.crc32c = codec::crc32c(sink.bytes());
  CAIRN_TRY(std::vector<volume::PromisedPack> promised,
            volume::Uploads(context_).promise(upload.id, upload.lease.secret, {wish}));
  CAIRN_CHECK_OK(put(promised.front(), sink.bytes()));
  CAIRN_CHECK_OK(register_pack(upload, promised.front().id));
  return promised.front().id;
}

Result<volume::Publication> StorageClient::put_files(VolumeId volume, UserId user, const Contents& files,
                                                     const std::set<std::string, store::PathLess>& deletes) {
  volume::LeaseRequest request;
  request.volume = volume;
  request.holder = "put";
  request.user = user;
  request.user_name = "tester";
  volume::Uploads uploads(context_);
  CAIRN_TRY(volume::OpenUpload upload, uploads.open(request));
  std::set<std::string> distinct;
  for (const auto& [path, text] : files) {
    if (!text.empty()) distinct.insert(text);
  }
  CAIRN_TRY(auto chunks, send(upload, std::vector<std::string>(distinct.begin(), distinct.end())));
  Changes changes;
  changes.deletes = deletes;
  for (const auto& [path, text] : files) {
    changes.puts[path] = {text, text.empty() ? FileChunk() : FileChunk(chunks.at(text))};
  }
  CAIRN_TRY(PackId changeset, send_changeset(upload, changes));
  volume::PublishRequest publish;
  publish.request = RequestId::random(context_.random);
  publish.upload = upload.id;
  publish.secret = upload.lease.secret;
  publish.changeset = changeset;
  Result<volume::Publication> result =
      volume::Publisher(context_).publish(publish, Deadline::after(minutes(1), context_.clock));
  CAIRN_CHECK_OK(uploads.close(upload.id, upload.lease.secret));
  return result;
}

Result<Contents> StorageClient::read(VolumeId volume, std::optional<int64_t> snapshot) {
  CAIRN_TRY(auto files, read_with_places(volume, snapshot));
  Contents contents;
  for (auto& [path, file] : files) contents[path] = std::move(file.first);
  return contents;
}

Result<std::map<std::string, std::pair<std::string, FileChunk>>> StorageClient::read_with_places(
    VolumeId volume, std::optional<int64_t> snapshot) {
  std::map<std::string, std::pair<std::string, FileChunk>> files;
  volume::Reads reads(context_);
  CAIRN_TRY(volume::Pinned pinned, reads.pin(volume, snapshot, "test"));
  store::FrameDecoder decoder;
  std::string after;
  uint64_t chunk_after = 0;
  while (true) {
    CAIRN_TRY(volume::ListingPage page, reads.listing(pinned.pin, "", after, chunk_after, limits::kMiB));
    store::BytesSource source(page.changeset);
    store::ChangesetReader records(source, store::ChangesetMode::kListing);
    store::Change change;
    while (true) {
      CAIRN_TRY(bool more, records.next(change));
      if (!more) break;
      FileChunk chunk;
      std::string text;
      while (true) {
        CAIRN_TRY(auto span, records.next_chunks());
        if (span.empty()) break;
        chunk = span.front();
      }
      if (chunk) {
        CAIRN_TRY(std::vector<volume::PackGrant> grants, reads.grant(pinned.pin, {chunk->place.pack}));
        CAIRN_TRY(object::ObjectKey key, object::ObjectKey::parse(grants.front().key));
        CAIRN_TRY(codec::Bytes frame,
                  objects_.get(key, chunk->place.offset, store::kFrameHeaderBytes + chunk->place.stored_len,
                               Deadline::never()));
        CAIRN_TRY(codec::Bytes raw, decoder.decode(frame, *chunk));
        text = codec::as_text(raw);
      }
      files[change.entry.path] = {std::move(text), chunk};
    }
    if (!page.more) break;
    after = page.next_after;
    chunk_after = page.next_chunk;
  }
  CAIRN_CHECK_OK(reads.unpin(pinned.pin));
  return files;
}

}  // namespace cairn::testing
