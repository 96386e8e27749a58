// Any bytes as the files of a shard: two lengths, then .ds.index, .ds.metadata and .ds. What opens is read to the end.
#include <cstdint>
#include <string>

#include "base/check.h"
#include "codec/bytes.h"
#include "dataset/shard_format.h"
#include "dataset/shard_reader.h"
#include "testing/temporary_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cairn;
  static testing::TemporaryFolder folder;
  static os::FileSystem& files = os::posix_file_system();
  codec::ByteReader input({data, size});
  uint8_t parts = input.u8();
  size_t index_size = input.u8(), metadata_size = input.u8();
  codec::ByteView index = input.bytes(index_size), metadata = input.bytes(metadata_size);
  if (!input.ok()) return 0;
  codec::ByteView ids = input.bytes(input.remaining());
  auto put = [&](const char* name, codec::ByteView bytes, bool present) {
    static_cast<void>(files.remove(folder / name).has_value());
    if (!present) return;
    auto file = files.create_exclusive(folder / name, 0644);
    CAIRN_CHECK(file && (*file)->write(bytes) && (*file)->close());
  };
  put("x.ds", ids, true);
  put("x.ds.index", index, (parts & 1) != 0);
  put("x.ds.metadata", metadata, (parts & 2) != 0);
  if (auto parsed = dataset::parse_shard_metadata(codec::as_text(metadata), "fuzz")) {
    auto again = dataset::parse_shard_metadata(dataset::format_shard_metadata(*parsed), "fuzz");
    CAIRN_CHECK(again && again->token_size == parsed->token_size && again->tokens == parsed->tokens.value_or(0));
  }
  auto shard = dataset::ShardReader::open(folder / "x.ds");
  if (!shard) return 0;
  CAIRN_CHECK(shard->tokens() * shard->token_size() == ids.size());
  std::vector<uint32_t> read(shard->tokens());
  CAIRN_CHECK(shard->read(0, read).has_value());
  if (shard->documents()) {
    std::vector<uint64_t> ends(*shard->documents());
    bool sound = shard->read_document_ends(0, ends).has_value();
    CAIRN_CHECK(!sound || ends.empty() || ends.back() == shard->tokens());
  }
  return 0;
}
