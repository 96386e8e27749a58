// A writer and reader of volumes for tests and the simulator: it does what `put` and `get` do (chunks into packs,
// promise, PUT, register, changeset, publish; pin, list, fetch, verify), with every step apart so that a test can stop
// between any two. Files are small: one chunk each.
//
// Not thread-safe.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "object/object_store.h"
#include "store/changeset.h"
#include "store/paths.h"
#include "volume/publish.h"
#include "volume/reads.h"
#include "volume/uploads.h"

namespace cairn::testing {

// What lies on a volume: path to bytes.
using Contents = std::map<std::string, std::string, store::PathLess>;

// One file's bytes as they lie in a pack; no place for empty ones.
using FileChunk = std::optional<store::ChunkRef>;

// A pack that was built and promised, and not sent yet.
struct BuiltDataPack {
  volume::PromisedPack promised;
  codec::Bytes bytes;
  std::map<std::string, store::ChunkRef> chunks;  // by contents
};

// What a changeset will say.
struct Changes {
  std::map<std::string, std::pair<std::string, FileChunk>, store::PathLess> puts;  // path to contents and chunk
  std::set<std::string, store::PathLess> deletes;

  void apply_to(Contents& contents) const;
};

class StorageClient {
 public:
  // All must outlive this; `objects` is where PUTs and GETs go.
  StorageClient(volume::Context& context, object::ObjectStore& objects) : context_(context), objects_(objects) {}

  // Packs `contents` and asks for a pack id for it.
  Result<BuiltDataPack> promise(const volume::OpenUpload& upload, const std::vector<std::string>& contents);
  // An object that is there already is fine: it is this very one.
  Status put(const volume::PromisedPack& promised, codec::ByteView bytes);
  // The error of the first rejected pack, if any.
  Status register_pack(const volume::OpenUpload& upload, PackId pack);
  // All three.
  Result<std::map<std::string, store::ChunkRef>> send(const volume::OpenUpload& upload,
                                                      const std::vector<std::string>& contents);
  // Encodes, sends and registers a changeset.
  Result<PackId> send_changeset(const volume::OpenUpload& upload, const Changes& changes);

  // A whole put of `files` and deletes of `paths`: open, send, publish, close.
  Result<volume::Publication> put_files(VolumeId volume, UserId user, const Contents& files,
                                        const std::set<std::string, store::PathLess>& deletes = {});

  // Pins, lists, fetches and verifies everything of a snapshot (the head when there is no number).
  Result<Contents> read(VolumeId volume, std::optional<int64_t> snapshot = {});
  // The same with the places, by path.
  Result<std::map<std::string, std::pair<std::string, FileChunk>>> read_with_places(
      VolumeId volume, std::optional<int64_t> snapshot = {});

 private:
  volume::Context& context_;
  object::ObjectStore& objects_;
};

}  // namespace cairn::testing
