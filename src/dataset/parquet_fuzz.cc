// Any bytes as a Parquet file: every column is asked for, and what opens is read for some rows.
#include <sys/mman.h>

#include <cstdint>

#include "base/check.h"
#include "dataset/parquet_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cairn;
  os::Fd fd(memfd_create("parquet", MFD_CLOEXEC));
  CAIRN_CHECK(fd.valid() && os::write_all(fd.get(), {data, size}, "fuzz").has_value());
  auto file = dataset::ParquetFile::open(std::move(fd), "fuzz");
  if (!file) return 0;
  std::string json;
  std::vector<std::string> readable;
  for (const std::string& column : (*file)->columns()) {
    auto rows = (*file)->rows({column});
    if (!rows) continue;
    readable.push_back(column);
    size_t bytes = 0;
    for (int row = 0; row < 1000 && bytes < 1'000'000; ++row) {
      auto more = (*rows)->next(json);
      if (!more || !*more) break;
      bytes += json.size();
    }
    auto strings = (*file)->strings(column);
    if (!strings) continue;
    std::string_view value;
    bool null = false;
    bytes = 0;
    for (int row = 0; row < 1000 && bytes < 1'000'000; ++row) {
      auto more = (*strings)->next(value, null);
      if (!more || !*more) break;
      for (char c : value) bytes += c >= 0 ? 1 : 2;
    }
  }
  if (auto rows = (*file)->rows(readable)) static_cast<void>((*rows)->next(json).has_value());
  return 0;
}
