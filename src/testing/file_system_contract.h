// What every os::FileSystem promises, as a typed-parameter suite: instantiate it with a factory that gives a fresh file
// system and an empty folder in it.
//
//   INSTANTIATE_TEST_SUITE_P(Memory, FileSystemContract, testing::Values(FileSystemCase{"memory", make_memory}));
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "os/file_system.h"

namespace cairn::testing {

struct FileSystemFixture {
  virtual ~FileSystemFixture() = default;
  virtual os::FileSystem& files() = 0;
  virtual std::string folder() = 0;  // exists, empty
};

struct FileSystemCase {
  std::string name;
  std::function<std::unique_ptr<FileSystemFixture>()> make;
};
inline void PrintTo(const FileSystemCase& c, std::ostream* out) {
  *out << c.name;
}

class FileSystemContract : public ::testing::TestWithParam<FileSystemCase> {
 protected:
  void SetUp() override { fixture_ = GetParam().make(); }
  os::FileSystem& files() { return fixture_->files(); }
  std::string path(const std::string& name) { return fixture_->folder() + "/" + name; }
  static os::ByteView bytes(std::string_view text) {
    return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
  }
  void write(const std::string& name, std::string_view text) {
    auto file = files().create_exclusive(path(name), 0644);
    ASSERT_TRUE(file) << file.error().to_string();
    ASSERT_TRUE((*file)->write(bytes(text)));
    ASSERT_TRUE((*file)->sync());
    ASSERT_TRUE((*file)->close());
  }
  std::string read(const std::string& name) {
    auto text = files().read_file(path(name), 1 << 20);
    return text ? *text : "<" + text.error().to_string() + ">";
  }
  template <class T>
  static Code code_of(const T& result) {
    return result ? Code::kInternal : result.error().code();
  }
  std::unique_ptr<FileSystemFixture> fixture_;
};

TEST_P(FileSystemContract, WritesAndReadsBack) {
  write("a", "hello");
  EXPECT_EQ(read("a"), "hello");
  auto file = files().open_read(path("a"));
  ASSERT_TRUE(file);
  EXPECT_EQ(*(*file)->size(), 5u);
  uint8_t buffer[8];
  EXPECT_EQ(*(*file)->read_at(1, {buffer, 3}), 3u);
  EXPECT_EQ(std::string(buffer, buffer + 3), "ell");
  EXPECT_EQ(*(*file)->read_at(3, buffer), 2u);
  EXPECT_EQ(*(*file)->read_at(5, buffer), 0u);
  EXPECT_EQ(*(*file)->read_at(500, buffer), 0u);
}

TEST_P(FileSystemContract, AppendGoesOnAtTheEnd) {
  for (const char* text : {"one ", "two"}) {
    auto file = files().open_append(path("log"), 0600);
    ASSERT_TRUE(file);
    ASSERT_TRUE((*file)->write(bytes(text)));
    ASSERT_TRUE((*file)->close());
  }
  EXPECT_EQ(read("log"), "one two");
}

TEST_P(FileSystemContract, NamesAreNeverTakenOver) {
  write("a", "first");
  write("b", "second");
  EXPECT_EQ(code_of(files().create_exclusive(path("a"), 0644)), Code::kFileExists);
  EXPECT_EQ(code_of(files().link_no_replace(path("b"), path("a"))), Code::kFileExists);
  EXPECT_EQ(code_of(files().make_directory(path("a"), 0755)), Code::kFileExists);
  EXPECT_EQ(read("a"), "first");
  EXPECT_TRUE(files().link_no_replace(path("b"), path("c")));
  EXPECT_TRUE(files().remove(path("b")));
  EXPECT_EQ(read("c"), "second");
  EXPECT_TRUE(files().rename(path("c"), path("a")));
  EXPECT_EQ(read("a"), "second");
  EXPECT_FALSE(*files().exists(path("c")));
}

TEST_P(FileSystemContract, AbsentThingsAreNotFound) {
  EXPECT_EQ(code_of(files().open_read(path("no"))), Code::kFileNotFound);
  EXPECT_EQ(code_of(files().stat(path("no"))), Code::kFileNotFound);
  EXPECT_EQ(code_of(files().remove(path("no"))), Code::kFileNotFound);
  EXPECT_EQ(code_of(files().rename(path("no"), path("x"))), Code::kFileNotFound);
  EXPECT_EQ(code_of(files().link_no_replace(path("no"), path("x"))), Code::kFileNotFound);
  EXPECT_EQ(code_of(files().list(path("no"))), Code::kFileNotFound);
  EXPECT_EQ(code_of(files().create_exclusive(path("no/x"), 0644)), Code::kFileNotFound);
  EXPECT_FALSE(*files().exists(path("no")));
}

TEST_P(FileSystemContract, DirectoriesAreMadeAndListedInPathOrder) {
  ASSERT_TRUE(files().make_directories(path("d/e/f"), 0755));
  ASSERT_TRUE(files().make_directories(path("d/e/f"), 0755));
  write("d/e-x", "1");
  write("d/e0", "2");
  write("d/a", "3");
  auto all = files().list(path("d"));
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 4u);
  // "e/" stands between "e-x" and "e0".
  EXPECT_EQ((*all)[0].name, "a");
  EXPECT_EQ((*all)[1].name, "e-x");
  EXPECT_EQ((*all)[2].name, "e");
  EXPECT_EQ((*all)[2].type, os::FileType::kDirectory);
  EXPECT_EQ((*all)[3].name, "e0");
  auto page = files().list(path("d"), "a", 2);
  ASSERT_TRUE(page);
  ASSERT_EQ(page->size(), 2u);
  EXPECT_EQ((*page)[0].name, "e-x");
  EXPECT_EQ((*page)[1].name, "e");
  EXPECT_EQ(files().list(path("d"), "e/", 9)->front().name, "e0");
  EXPECT_TRUE(files().list(path("d"), "zz", 9)->empty());
  EXPECT_TRUE(files().sync_directory(path("d")));
  EXPECT_FALSE(files().remove_directory(path("d")));
  EXPECT_TRUE(files().remove_directory(path("d/e/f")));
  EXPECT_EQ(files().stat(path("d"))->type, os::FileType::kDirectory);
  EXPECT_EQ(code_of(files().make_directories(path("d/a"), 0755)), Code::kPathTypeConflict);
  EXPECT_FALSE(files().make_directories(path("d/a/x"), 0755));
}

TEST_P(FileSystemContract, AtomicWriteReplacesWhole) {
  ASSERT_TRUE(files().write_file_atomic(path("state"), bytes("one"), 0600));
  ASSERT_TRUE(files().write_file_atomic(path("state"), bytes("two!"), 0600));
  EXPECT_EQ(read("state"), "two!");
  EXPECT_EQ(files().stat(path("state"))->mode, 0600u);
  EXPECT_EQ(files().list(fixture_->folder())->size(), 1u);
}

TEST_P(FileSystemContract, ReadFileIsBounded) {
  write("a", "12345");
  EXPECT_EQ(code_of(files().read_file(path("a"), 4)), Code::kLimitExceeded);
  EXPECT_TRUE(files().read_file(path("a"), 5));
  EXPECT_FALSE(files().open_read(fixture_->folder()));
}

TEST_P(FileSystemContract, AnOpenFileOutlivesItsName) {
  write("a", "hello");
  auto file = files().open_read(path("a"));
  ASSERT_TRUE(file);
  ASSERT_TRUE(files().remove(path("a")));
  uint8_t buffer[5];
  EXPECT_EQ(*(*file)->read_at(0, buffer), 5u);
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FileSystemContract);

}  // namespace cairn::testing
