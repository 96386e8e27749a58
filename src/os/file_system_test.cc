// The file system contract on both implementations, and what the memory one loses at a power loss.
#include "os/file_system.h"

#include <sys/resource.h>

#include <csignal>
#include <limits>
#include <set>

#include <gtest/gtest.h>

#include "base/random.h"
#include "os/fd.h"
#include "os/memory_file_system.h"
#include "os/timestamp.h"
#include "testing/file_system_contract.h"
#include "testing/temporary_folder.h"

namespace cairn::testing {
namespace {

struct MemoryFixture final : FileSystemFixture {
  MemoryFixture() { EXPECT_TRUE(memory.make_directory("/work", 0755)); }
  os::FileSystem& files() override { return memory; }
  std::string folder() override { return "/work"; }
  os::MemoryFileSystem memory;
};
struct PosixFixture final : FileSystemFixture {
  os::FileSystem& files() override { return os::posix_file_system(); }
  std::string folder() override { return temporary.path(); }
  TemporaryFolder temporary;
};

INSTANTIATE_TEST_SUITE_P(All, FileSystemContract,
                         ::testing::Values(FileSystemCase{"memory", [] { return std::make_unique<MemoryFixture>(); }},
                                           FileSystemCase{"posix", [] { return std::make_unique<PosixFixture>(); }}),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace cairn::testing

namespace cairn::os {
namespace {

ByteView bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

void put(FileSystem& files, const std::string& path, std::string_view text, bool sync) {
  auto file = files.create_exclusive(path, 0644);
  ASSERT_TRUE(file);
  ASSERT_TRUE((*file)->write(bytes(text)));
  if (sync) {
    ASSERT_TRUE((*file)->sync());
  }
}

TEST(ParentPath, OfEveryShape) {
  EXPECT_EQ(parent_path("/a/b/c"), "/a/b");
  EXPECT_EQ(parent_path("/a/b//"), "/a");
  EXPECT_EQ(parent_path("/c"), "/");
  EXPECT_EQ(parent_path("/"), "/");
  EXPECT_EQ(parent_path("c"), ".");
  EXPECT_EQ(parent_path("c/d"), "c");
}

TEST(MemoryFileSystem, KeepsOnlyWhatWasSynced) {
  MemoryFileSystem files;
  put(files, "/named-and-synced", "x", true);
  put(files, "/named-only", "y", false);
  ASSERT_TRUE(files.sync_directory("/"));
  put(files, "/synced-only", "z", true);
  files.crash();
  EXPECT_EQ(*files.read_file("/named-and-synced", 10), "x");
  EXPECT_EQ(*files.read_file("/named-only", 10), "");
  EXPECT_FALSE(*files.exists("/synced-only"));
  EXPECT_EQ(files.used_bytes(), 1u);
}

TEST(MemoryFileSystem, AnUnsyncedRemovalComesBack) {
  MemoryFileSystem files;
  put(files, "/a", "x", true);
  ASSERT_TRUE(files.sync_directory("/"));
  ASSERT_TRUE(files.remove("/a"));
  EXPECT_EQ(files.used_bytes(), 0u);
  files.crash();
  EXPECT_EQ(*files.read_file("/a", 10), "x");
  EXPECT_EQ(files.used_bytes(), 1u);
}

TEST(MemoryFileSystem, RandomCrashesShowEveryPrefix) {
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    MemoryFileSystem files;
    SeededRandom random(seed);
    put(files, "/a", "abc", false);
    put(files, "/b", "def", true);
    files.crash(&random);
    std::string state;
    for (const char* name : {"/a", "/b"}) {
      auto text = files.read_file(name, 10);
      state += text ? *text + ";" : "-;";
    }
    seen.insert(state);
  }
  EXPECT_TRUE(seen.count("-;-;"));
  EXPECT_TRUE(seen.count("abc;-;"));
  EXPECT_TRUE(seen.count("ab;def;"));
  EXPECT_TRUE(seen.count(std::string("\0\0\0;def;", 8)));
  EXPECT_FALSE(seen.count("-;def;"));
}

TEST(MemoryFileSystem, OldHandlesDieWithTheCrash) {
  MemoryFileSystem files;
  auto file = files.create_exclusive("/a", 0644);
  files.crash();
  EXPECT_FALSE((*file)->write(bytes("x")));
}

TEST(MemoryFileSystem, FaultsAndCapacity) {
  MemoryFileSystem files;
  files.set_capacity(4);
  auto file = files.create_exclusive("/a", 0644);
  EXPECT_TRUE((*file)->write(bytes("1234")));
  EXPECT_EQ((*file)->write(bytes("5")).error().code(), Code::kNoSpaceLeft);
  files.set_capacity(100);
  EXPECT_EQ((*file)->sync().error().code(), Code::kNoSpaceLeft) << "the first error stays";
  files.fail_operation(1, Error(Code::kIoError, "bad sector"));
  EXPECT_TRUE(files.make_directory("/d", 0755));
  EXPECT_EQ(files.stat("/d").error().code(), Code::kIoError);
  EXPECT_TRUE(files.stat("/d"));
}

TEST(MemoryFileSystem, PowerGoesInTheMiddleOfAWrite) {
  MemoryFileSystem files;
  auto file = files.create_exclusive("/a", 0644);
  ASSERT_TRUE(files.sync_directory("/"));
  files.power_off_at(0);
  EXPECT_FALSE((*file)->write(bytes("12345678")));
  EXPECT_TRUE(files.power_is_off());
  EXPECT_FALSE(files.stat("/a"));
  files.crash();
  EXPECT_EQ(*files.read_file("/a", 10), "");
}

TEST(WriteFileAtomic, PowerLossAtEveryOperationLeavesOldOrNew) {
  for (uint64_t at = 0;; ++at) {
    bool was_cut = false;
    for (uint64_t seed = 0; seed < 20; ++seed) {
      MemoryFileSystem files;
      ASSERT_TRUE(files.write_file_atomic("/state", bytes("old state"), 0600));
      files.power_off_at(at);
      bool written = files.write_file_atomic("/state", bytes("new"), 0600).has_value();
      was_cut = was_cut || files.power_is_off();
      SeededRandom random(seed);
      files.crash(seed == 0 ? nullptr : &random);
      std::string text = *files.read_file("/state", 100);
      if (written) {
        EXPECT_EQ(text, "new") << at;
      } else {
        EXPECT_TRUE(text == "new" || text == "old state") << text;
      }
    }
    if (!was_cut) break;
  }
}

TEST(Fd, WhatCannotBeAppendedWholeIsCutOff) {
  testing::TemporaryFolder folder;
  auto fd = open_append_fd(folder / "f", 0644);
  ASSERT_TRUE(fd);
  auto bytes = [](std::string_view text) { return ByteView(reinterpret_cast<const uint8_t*>(text.data()), text.size()); };
  ASSERT_TRUE(append_whole(fd->get(), bytes("row\n"), "f"));
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  auto handler = ::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 6;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  Status failed = append_whole(fd->get(), bytes("another row\n"), "f");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, handler);
  EXPECT_FALSE(failed);
  ASSERT_TRUE(append_whole(fd->get(), bytes("next\n"), "f"));
  EXPECT_EQ(*posix_file_system().read_file(folder / "f", 100), "row\nnext\n");
}

TEST(Timestamp, FarOnesAreTheFirstAndTheLast) {
  EXPECT_EQ(nanoseconds_of(1, 5), 1'000'000'005);
  EXPECT_EQ(nanoseconds_of(-1, 5), -999'999'995);
  EXPECT_EQ(nanoseconds_of(10'413'792'000, 0), std::numeric_limits<int64_t>::max());  // the year 2300
  EXPECT_EQ(nanoseconds_of(-100'000'000'000, 0), std::numeric_limits<int64_t>::min());
}

}  // namespace
}  // namespace cairn::os
