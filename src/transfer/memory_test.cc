// A put needs bounded memory, whatever is put. A binary of its own: the high-water mark is the process's.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <thread>

#include "testing/fake_remote.h"
#include "testing/local_trees.h"
#include "testing/temporary_folder.h"
#include "transfer/put.h"

namespace cairn::transfer {
namespace {

long high_water_mib() {
  rusage usage;
  CAIRN_CHECK(::getrusage(RUSAGE_SELF, &usage) == 0);
  return usage.ru_maxrss >> 10;
}

TEST(Memory, BigStreamsAndManySmallFilesStayBelow512MiB) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer's own memory cannot be told from the program's";
#endif
  testing::TemporaryFolder folder;
  testing::FakeRemote remote;
  remote.discard_packs = true;
  PutOptions options;
  options.state_dir = folder / "state";
  options.cache_dir = folder / "cache";

  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  constexpr uint64_t kStreamBytes = uint64_t{768} << 20;
  std::thread writer([&] {
    SeededRandom random(1);
    std::vector<uint8_t> block(1 << 20);
    for (uint64_t sent = 0; sent < kStreamBytes; sent += block.size()) {
      random.fill(block);
      CAIRN_CHECK(os::write_all(ends[1], block, "pipe").has_value());
    }
    ::close(ends[1]);
  });
  options.local = "-";
  options.remote = "stream";
  options.stdin_fd = ends[0];
  Progress progress;
  auto streamed = put(remote, options, progress, Deadline::never());
  writer.join();
  ::close(ends[0]);
  ASSERT_TRUE(streamed) << streamed.error().to_string();
  EXPECT_EQ(streamed->bytes, kStreamBytes);
  EXPECT_LT(high_water_mib(), 512);

  std::string src = folder / "src";
  ASSERT_EQ(::mkdir(src.c_str(), 0755), 0);
  SeededRandom random(2);
  for (int i = 0; i < 20'000; ++i) {
    if (i % 1000 == 0) CAIRN_CHECK(::mkdir((src + "/d" + std::to_string(i / 1000)).c_str(), 0755) == 0);
    testing::write_local(src + "/d" + std::to_string(i / 1000) + "/" + std::to_string(i), testing::random_bytes(random, 4096));
  }
  options.local = src + "/";
  options.remote = "many";
  Progress again;
  auto many = put(remote, options, again, Deadline::never());
  ASSERT_TRUE(many) << many.error().to_string();
  EXPECT_EQ(many->files, 20'000u);
  EXPECT_LT(high_water_mib(), 512);
  RecordProperty("high_water_mib", static_cast<int>(high_water_mib()));
}

}  // namespace
}  // namespace cairn::transfer
