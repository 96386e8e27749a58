// Mountinfo as the kernel writes it, and an overlay in a namespace of its own. The mounting tests run in a child
// process, and say so when this machine forbids mounts.
#include "os/mount.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include <gtest/gtest.h>

#include "os/disk.h"
#include "os/file_system.h"
#include "os/tree.h"
#include "testing/temporary_folder.h"

namespace cairn::os {
namespace {

constexpr int kSkipped = 77;

TEST(Mountinfo, ParsesTagsEscapesAndOptions) {
  auto mounts = parse_mountinfo(
      "36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 shared:2 - ext3 /dev/root rw,errors=continue\n"
      "40 36 0:31 / /volume rw,nosuid - overlay overlay rw,lowerdir=/l,upperdir=/u,workdir=/w,metacopy=off\n");
  ASSERT_TRUE(mounts) << mounts.error().to_string();
  ASSERT_EQ(mounts->size(), 2u);
  EXPECT_EQ(mounts->at(0).mount_point, "/mnt 2");
  EXPECT_EQ(mounts->at(0).root, "/mnt1");
  EXPECT_EQ(mounts->at(0).source, "/dev/root");
  EXPECT_EQ(mounts->at(1).fs_type, "overlay");
  EXPECT_EQ(mounts->at(1).super_options.back(), "metacopy=off");
  EXPECT_EQ(mounts->at(1).options, (std::vector<std::string>{"rw", "nosuid"}));
}

TEST(Mountinfo, RefusesWhatIsNotALine) {
  for (const char* line :
       {"x", "1 2 3:4 / /x rw ext4 dev rw", "a 2 3:4 / /x rw - ext4 dev rw", "1 2 3:4 / /x rw - ext4"}) {
    EXPECT_EQ(parse_mountinfo(line).error().code(), Code::kDataCorrupt) << line;
  }
  EXPECT_TRUE(current_mounts());
}

// Runs `body` in a child; 0 = passed, kSkipped = not possible here.
template <class Body>
int in_child(Body body) {
  pid_t pid = fork();
  if (pid == 0) _exit(body());
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

int fail(const Error& error) {
  std::fprintf(stderr, "%s\n", error.to_string().c_str());
  return 1;
}

int overlay_body(const std::string& folder, bool as_user) {
  Status entered = as_user ? enter_user_and_mount_namespace() : enter_mount_namespace();
  if (!entered) return kSkipped;
  FileSystem& files = posix_file_system();
  OverlaySpec spec;
  spec.lowers = {folder + "/lower"};
  spec.upper = folder + "/upper";
  spec.work = folder + "/work";
  spec.target = folder + "/merged";
  spec.user_xattrs = as_user;
  for (const std::string& path : {spec.lowers[0], spec.upper, spec.work, spec.target}) {
    if (Status made = files.make_directories(path, 0755); !made) return fail(made.error());
  }
  if (Status written = files.write_file_atomic(spec.lowers[0] + "/base", {}, 0644); !written)
    return fail(written.error());
  if (verify_overlay(spec.target)) return 2;
  Status mounted = mount_overlay(spec);
  if (!mounted) {
    std::fprintf(stderr, "%s\n", mounted.error().to_string().c_str());
    return kSkipped;
  }
  if (!*files.exists(spec.target + "/base")) return 3;
  if (!files.write_file_atomic(spec.target + "/new", {}, 0644)) return 4;
  if (!*files.exists(spec.upper + "/new")) return 5;
  if (Status gone = unmount_lazily(spec.target); !gone) return fail(gone.error());
  return *files.exists(spec.target + "/new") ? 6 : 0;
}

TEST(Overlay, MountsVerifiesAndLeavesNothingOutside) {
  testing::TemporaryFolder folder;
  int result = in_child([&] { return overlay_body(folder.path(), false); });
  if (result == kSkipped) GTEST_SKIP() << "overlays cannot be mounted here";
  EXPECT_EQ(result, 0);
}

TEST(Overlay, InAUserNamespace) {
  testing::TemporaryFolder folder;
  int result = in_child([&] { return overlay_body(folder.path(), true); });
  if (result == kSkipped) GTEST_SKIP() << "overlays cannot be mounted in a user namespace here";
  EXPECT_EQ(result, 0);
}

TEST(Overlay, RefusesFoldersItCannotName) {
  OverlaySpec spec;
  spec.lowers = {"/a:b"};
  EXPECT_EQ(mount_overlay(spec).error().code(), Code::kPathInvalid);
}

TEST(Overlay, RemoveTreeStopsAtAnotherFileSystem) {
  testing::TemporaryFolder folder;
  int result = in_child([&]() -> int {
    if (!enter_mount_namespace()) return kSkipped;
    FileSystem& files = posix_file_system();
    std::string inner = folder / "tree/mounted";
    if (!files.make_directories(inner, 0755) || !mount_tmpfs(inner, 1 << 20)) return kSkipped;
    if (!files.write_file_atomic(inner + "/precious", {}, 0644)) return 1;
    Directory root = *Directory::open(folder.path());
    if (root.remove_tree("tree")) return 2;
    return *files.exists(inner + "/precious") ? 0 : 3;
  });
  if (result == kSkipped) GTEST_SKIP() << "nothing can be mounted here";
  EXPECT_EQ(result, 0);
}

TEST(Disk, TellsRoomAndType) {
  testing::TemporaryFolder folder;
  auto space = disk_space(folder.path());
  ASSERT_TRUE(space);
  EXPECT_GT(space->total_bytes, 0u);
  EXPECT_LE(space->available_bytes, space->total_bytes);
  EXPECT_FALSE(file_system_type(folder.path())->empty());
  EXPECT_EQ(disk_space("/no/such/path").error().code(), Code::kFileNotFound);
}

}  // namespace
}  // namespace cairn::os
