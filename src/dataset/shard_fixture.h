// Shards for tests: written from ids, or file by file.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "dataset/shard_writer.h"
#include "os/file_system.h"

namespace cairn::dataset::test {

using Ids = std::vector<uint32_t>;

inline void write_file(const std::string& path, std::string_view bytes) {
  os::FileSystem& files = os::posix_file_system();
  ASSERT_TRUE(files.make_directories(os::parent_path(path), 0755));
  ASSERT_TRUE(files.write_file_atomic(path, codec::as_bytes(bytes), 0644));
}

inline void write_shard(const std::string& path, uint32_t token_size, const std::vector<Ids>& documents,
                        const std::string& tokenizer = "tiny") {
  ASSERT_TRUE(os::posix_file_system().make_directories(os::parent_path(path), 0755));
  auto writer = ShardWriter::create(os::posix_file_system(), path, token_size, tokenizer);
  ASSERT_TRUE(writer) << writer.error().to_string();
  for (const Ids& document : documents) ASSERT_TRUE((*writer)->append(document));
  Status finished = (*writer)->finish();
  ASSERT_TRUE(finished) << finished.error().to_string();
}

}  // namespace cairn::dataset::test
