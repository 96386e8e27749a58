#include <cstring>

#include <snappy.h>
#include <zlib.h>
#include <zstd.h>

#include "base/check.h"
#include "dataset/parquet_column.h"

namespace cairn::dataset {
namespace {

bool inflate_all(codec::ByteView stored, std::span<uint8_t> out) {
  z_stream stream;
  std::memset(&stream, 0, sizeof stream);
  constexpr int kGzipOrZlib = 15 + 32;
  if (inflateInit2(&stream, kGzipOrZlib) != Z_OK) return false;
  // zlib does not write to its input.
  stream.next_in = const_cast<Bytef*>(stored.data());
  stream.avail_in = static_cast<uInt>(stored.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  int result = Z_OK;
  while (result == Z_OK) {
    result = inflate(&stream, Z_FINISH);
    // A page may be several gzip members.
    if (result == Z_STREAM_END && stream.avail_in > 0 && stream.avail_out > 0) result = inflateReset(&stream);
  }
  bool whole = result == Z_STREAM_END && stream.avail_out == 0;
  inflateEnd(&stream);
  return whole;
}

bool snappy_all(codec::ByteView stored, std::span<uint8_t> out) {
  const char* from = reinterpret_cast<const char*>(stored.data());
  size_t size = 0;
  return snappy::GetUncompressedLength(from, stored.size(), &size) && size == out.size() &&
         snappy::RawUncompress(from, stored.size(), reinterpret_cast<char*>(out.data()));
}

}  // namespace

bool parquet_decompress(ParquetCodec codec, codec::ByteView stored, std::span<uint8_t> out) {
  switch (codec) {
    case ParquetCodec::kNone:
      if (stored.size() != out.size()) return false;
      if (!out.empty()) std::memcpy(out.data(), stored.data(), out.size());
      return true;
    case ParquetCodec::kSnappy:
      return snappy_all(stored, out);
    case ParquetCodec::kGzip:
      return inflate_all(stored, out);
    case ParquetCodec::kZstd:
      return ZSTD_decompress(out.data(), out.size(), stored.data(), stored.size()) == out.size();
    case ParquetCodec::kLzo:
    case ParquetCodec::kBrotli:
    case ParquetCodec::kLz4:
    case ParquetCodec::kLz4Raw:
      break;
  }
  CAIRN_CHECK(false && "a codec that was refused before");
  return false;
}

}  // namespace cairn::dataset
