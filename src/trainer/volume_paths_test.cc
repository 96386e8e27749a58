#include "trainer/volume_paths.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/temporary_folder.h"

namespace cairn::trainer {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class VolumePaths : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_ / "volume/data/more");
    fs::create_directories(folder_ / "outside/more");
    fs::create_directory_symlink("data", folder_ / "volume/inside");
    fs::create_directory_symlink("../outside", folder_ / "volume/out");
    fs::create_directory_symlink("volume", folder_ / "mount");
    fs::create_directory_symlink("volume2", folder_ / "volume/dangling");
  }
  void expect_refused(const std::string& root, const std::string& spelled) {
    auto path = path_on_volume(root, spelled);
    ASSERT_FALSE(path) << spelled;
    EXPECT_EQ(path.error().code(), Code::kConfigInvalid);
    EXPECT_THAT(path.error().message(), HasSubstr("'" + spelled + "' leads out of the volume"));
    EXPECT_THAT(path.error().message(), HasSubstr("/outside"));
  }
  testing::TemporaryFolder folder_;
};

TEST_F(VolumePaths, LinksOutOfTheVolumeAreRefused) {
  for (const std::string& root : {folder_ / "volume", folder_ / "mount"}) {
    expect_refused(root, "out");
    expect_refused(root, "out/more");
    expect_refused(root, "/volume/out");
  }
  fs::create_directories(folder_ / "volume2");
  fs::create_directory_symlink("../outside", folder_ / "volume2/out");
  expect_refused(folder_ / "volume2", "out");
  // A neighbour whose name begins alike is outside, too.
  fs::create_directory_symlink("../volume2", folder_ / "volume/neighbour");
  EXPECT_FALSE(path_on_volume(folder_ / "volume", "neighbour"));
}

TEST_F(VolumePaths, WhatStaysOnTheVolumeIsFound) {
  EXPECT_EQ(*path_on_volume(folder_ / "volume", "data/more"), folder_ / "volume/data/more");
  EXPECT_EQ(*path_on_volume(folder_ / "volume", "inside/more"), folder_ / "volume/inside/more");
  EXPECT_EQ(*path_on_volume(folder_ / "mount", "data"), folder_ / "mount/data");
  EXPECT_EQ(*path_on_volume("/", (folder_ / "outside").substr(1)), folder_ / "outside");
  fs::path before = fs::current_path();
  fs::current_path(folder_ / "volume");
  EXPECT_EQ(*path_on_volume(".", "data"), "./data");
  fs::current_path(before);
  // Absent: the reader says so.
  EXPECT_EQ(*path_on_volume(folder_ / "volume", "none"), folder_ / "volume/none");
  EXPECT_EQ(*path_on_volume(folder_ / "volume", "dangling"), folder_ / "volume/dangling");
  EXPECT_FALSE(path_on_volume(folder_ / "volume", "../outside"));
}

}  // namespace
}  // namespace cairn::trainer
