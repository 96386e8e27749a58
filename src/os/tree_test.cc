// Directory inside a folder that somebody else is changing: nothing leads out, nothing blocks, names are bytes.
#include "os/tree.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "testing/temporary_folder.h"

namespace cairn::os {
namespace {

class TreeTest : public ::testing::Test {
 protected:
  TreeTest() : root_(*Directory::open(folder_.path())) {}
  void write(const std::string& name, std::string_view text) {
    auto file = root_.create_file(name, 0644);
    ASSERT_TRUE(file) << file.error().to_string();
    ASSERT_TRUE(write_all(file->get(), {reinterpret_cast<const uint8_t*>(text.data()), text.size()}, name));
  }
  std::string read(const std::string& name) {
    auto file = root_.open_file(name);
    return file ? *read_to_end(file->fd.get(), 1 << 20, name) : "<" + file.error().to_string() + ">";
  }
  template <class T>
  static Code code_of(const T& result) {
    return result ? Code::kInternal : result.error().code();
  }
  testing::TemporaryFolder folder_;
  Directory root_;
};

TEST(RelativePath, RulesOfNames) {
  EXPECT_TRUE(is_relative_path("a"));
  EXPECT_TRUE(is_relative_path("a/b c/\xff..\n/..."));
  EXPECT_TRUE(is_relative_path(std::string(255, 'x')));
  for (std::string bad : {"", "/a", "a/", "a//b", ".", "a/..", "../a", "a/./b"})
    EXPECT_FALSE(is_relative_path(bad)) << bad;
  EXPECT_FALSE(is_relative_path(std::string(256, 'x')));
  EXPECT_FALSE(is_relative_path(std::string("a\0b", 3)));
  std::string longest;
  while (longest.size() < 4096) longest += "x/";
  EXPECT_FALSE(is_relative_path(longest));
  longest.back() = 'x';
  EXPECT_TRUE(is_relative_path(longest));
}

TEST_F(TreeTest, MakesListsAndReads) {
  auto deep = root_.make_directories("a/b", 0750);
  ASSERT_TRUE(deep);
  write("a/b/file", "hello");
  EXPECT_EQ(read("a/b/file"), "hello");
  EXPECT_EQ(code_of(root_.create_file("a/b/file", 0644)), Code::kFileExists);
  EXPECT_EQ(root_.stat("a")->mode, 0750u);
  ASSERT_TRUE(root_.create_symlink("file", "a/b/link"));
  EXPECT_EQ(*root_.read_link("a/b/link"), "file");
  auto entries = deep->list();
  ASSERT_TRUE(entries);
  ASSERT_EQ(entries->size(), 2u);
  EXPECT_EQ((*entries)[0].name, "file");
  EXPECT_EQ((*entries)[0].stat.size, 5u);
  EXPECT_EQ((*entries)[1].stat.type, FileType::kSymlink);
  EXPECT_EQ(code_of(deep->list_names(1)), Code::kLimitExceeded);
  EXPECT_EQ(deep->list_names(2)->size(), 2u);
}

TEST_F(TreeTest, NamesAreBytes) {
  const std::string name = "\xff\xfe \n'\x01";
  write(name, "raw");
  EXPECT_EQ(root_.list_names()->at(0), name);
  EXPECT_EQ(read(name), "raw");
}

TEST_F(TreeTest, NothingLeadsOut) {
  testing::TemporaryFolder outside;
  ASSERT_TRUE(posix_file_system().write_file_atomic(outside / "secret", {}, 0600));
  ASSERT_TRUE(root_.create_symlink(outside.path(), "out"));
  ASSERT_TRUE(root_.create_symlink(outside / "secret", "file"));
  ASSERT_TRUE(root_.create_symlink("..", "up"));
  ASSERT_TRUE(root_.create_symlink("/proc/self/cwd", "magic"));
  for (const char* path : {"out/secret", "file", "up/x", "magic/x"}) {
    EXPECT_EQ(code_of(root_.open_file(path)), Code::kPathTypeConflict) << path;
  }
  EXPECT_EQ(code_of(root_.open_directory("out")), Code::kPathTypeConflict);
  EXPECT_EQ(code_of(root_.create_file("out/new", 0644)), Code::kPathTypeConflict);
  EXPECT_EQ(code_of(root_.create_file("file", 0644)), Code::kFileExists);
  EXPECT_EQ(code_of(root_.make_directories("out/new", 0755)), Code::kPathTypeConflict);
  EXPECT_EQ(code_of(root_.remove("out/secret")), Code::kPathTypeConflict);
  EXPECT_EQ(code_of(root_.rename("file", root_, "out/new")), Code::kPathTypeConflict);
  EXPECT_EQ(code_of(root_.set_mode("file", 0777)), Code::kPathTypeConflict);
  EXPECT_EQ(code_of(root_.open_file("../x")), Code::kPathInvalid);
  EXPECT_TRUE(root_.set_mtime("file", 1'000'000'001)) << "of the link itself";
  EXPECT_EQ(root_.stat("file")->mtime_ns, 1'000'000'001);
  ASSERT_TRUE(root_.remove_tree("out"));
  EXPECT_TRUE(*posix_file_system().exists(outside / "secret"));
  EXPECT_EQ(posix_file_system().stat(outside / "secret")->mode, 0600u);
}

TEST_F(TreeTest, PipesAndSocketsNeitherBlockNorOpen) {
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0666), 0);
  EXPECT_EQ(code_of(root_.open_file("pipe")), Code::kPathTypeConflict);
  EXPECT_EQ(code_of(root_.open_file_to_write("pipe")), Code::kPathTypeConflict);
  EXPECT_EQ(root_.stat("pipe")->type, FileType::kOther);
  EXPECT_EQ(code_of(root_.open_file(".")), Code::kPathInvalid);
  ASSERT_TRUE(root_.make_directory("dir", 0755));
  EXPECT_EQ(code_of(root_.open_file("dir")), Code::kPathTypeConflict);
  EXPECT_TRUE(root_.remove("pipe"));
}

TEST_F(TreeTest, AFolderSwappedForALinkIsNeverFollowed) {
  testing::TemporaryFolder outside;
  ASSERT_TRUE(posix_file_system().write_file_atomic(outside / "f", {}, 0600));
  ASSERT_TRUE(root_.make_directory("real", 0755));
  write("real/f", "inside");
  ASSERT_TRUE(root_.create_symlink(outside.path(), "link"));
  std::atomic<bool> stop{false};
  std::thread swapper([&] {
    while (!stop) renameat2(root_.fd(), "real", root_.fd(), "link", RENAME_EXCHANGE);
  });
  int opened = 0;
  for (int i = 0; i < 20'000; ++i) {
    auto file = root_.open_file("real/f");
    if (!file) continue;
    ++opened;
    ASSERT_EQ(file->stat.size, 6u) << "the file outside is empty";
  }
  stop = true;
  swapper.join();
  EXPECT_GT(opened, 0);
}

TEST_F(TreeTest, LinksRenamesAndTimes) {
  write("a", "1");
  write("b", "2");
  ASSERT_TRUE(root_.make_directory("d", 0700));
  EXPECT_EQ(code_of(root_.link("a", root_, "b")), Code::kFileExists);
  ASSERT_TRUE(root_.link("a", root_, "d/a2"));
  EXPECT_EQ(root_.stat("d/a2")->inode, root_.stat("a")->inode);
  EXPECT_EQ(root_.stat("a")->links, 2u);
  EXPECT_EQ(code_of(root_.rename_no_replace("a", root_, "b")), Code::kFileExists);
  ASSERT_TRUE(root_.rename("a", root_, "b"));
  EXPECT_EQ(read("b"), "1");
  ASSERT_TRUE(root_.set_mode("b", 04640));
  EXPECT_EQ(root_.stat("b")->mode, 04640u);
  for (int64_t time : {int64_t{1'700'000'000'123'456'789}, int64_t{-1}, int64_t{-1'500'000'000}}) {
    ASSERT_TRUE(root_.set_mtime("b", time));
    EXPECT_EQ(root_.stat("b")->mtime_ns, time);
  }
  EntryStat before = *root_.stat("b");
  auto file = root_.open_file_to_write("b");
  ASSERT_TRUE(file);
  ASSERT_TRUE(before.same_content_as(file->stat));
  ASSERT_EQ(pwrite(file->fd.get(), "9", 1, 0), 1);
  EXPECT_FALSE(before.same_content_as(*root_.stat("b")));
}

TEST_F(TreeTest, ReadingLeavesNoAccessTime) {
  write("a", "1");
  timespec old[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(utimensat(root_.fd(), "a", old, 0), 0);
  EXPECT_EQ(read("a"), "1");
  struct stat st;
  ASSERT_EQ(stat((folder_ / "a").c_str(), &st), 0);
  EXPECT_EQ(st.st_atim.tv_sec, 1000);
}

TEST_F(TreeTest, PathsLongerThanOneSystemCall) {
  std::string path = std::string(200, 'd');
  for (int i = 0; i < 19; ++i) path += "/" + std::string(200, 'd');
  ASSERT_TRUE(root_.make_directories(path, 0700));
  std::string file = path + "/" + std::string(4096 - path.size() - 1, 'f');
  ASSERT_EQ(file.size(), 4096u);
  write(file, "deep");
  EXPECT_EQ(read(file), "deep");
  EXPECT_EQ(root_.stat(file)->size, 4u);
  ASSERT_TRUE(root_.rename(file, root_, "up"));
  EXPECT_EQ(read("up"), "deep");
}

TEST_F(TreeTest, RemovesDeepWideAndForbiddenTrees) {
  Directory at = *root_.make_directories("tree", 0755);
  for (int i = 0; i < 1500; ++i) at = *at.make_directories("d", 0755);
  ASSERT_TRUE(at.create_file("bottom", 0600));
  for (int i = 0; i < 2000; ++i) ASSERT_TRUE(root_.create_file("tree/f" + std::to_string(i), 0000));
  ASSERT_TRUE(root_.make_directory("tree/shut", 0755));
  write("tree/shut/x", "");
  ASSERT_TRUE(root_.set_mode("tree/shut", 0000));
  ASSERT_TRUE(root_.create_symlink("..", "tree/up"));
  write("beside", "stays");
  Status removed = root_.remove_tree("tree");
  ASSERT_TRUE(removed) << removed.error().to_string();
  EXPECT_EQ(*root_.list_names(), std::vector<std::string>{"beside"});
  EXPECT_TRUE(root_.remove_tree("tree"));
  EXPECT_TRUE(root_.remove_tree("beside"));
}

TEST_F(TreeTest, DataRangesOfASparseFile) {
  write("sparse", "");
  auto file = root_.open_file_to_write("sparse");
  ASSERT_EQ(ftruncate(file->fd.get(), 1 << 30), 0);
  ASSERT_EQ(pwrite(file->fd.get(), "x", 1, 512 << 20), 1);
  auto ranges = data_ranges(file->fd.get(), 1 << 30, 100, "sparse");
  ASSERT_TRUE(ranges);
  ASSERT_EQ(ranges->size(), 1u);
  EXPECT_LE(ranges->at(0).offset, uint64_t{512} << 20);
  EXPECT_GT(ranges->at(0).offset + ranges->at(0).size, uint64_t{512} << 20);
  EXPECT_TRUE(data_ranges(file->fd.get(), 0, 100, "sparse")->empty());
}

}  // namespace
}  // namespace cairn::os
