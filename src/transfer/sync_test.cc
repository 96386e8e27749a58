// Staging and syncing, against real overlay mounts where the machine allows them and against plain copies everywhere.
#include "transfer/sync.h"

#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <atomic>

#include "os/file_system.h"
#include "os/mount.h"
#include "store/paths.h"
#include "testing/fake_remote.h"
#include "testing/local_trees.h"
#include "testing/temporary_folder.h"
#include "transfer/put.h"
#include "transfer/stage.h"

namespace cairn::transfer {
namespace {

using testing::FakeRemote;
using testing::LocalTree;
using testing::TemporaryFolder;

struct World {
  TemporaryFolder folder;
  FakeRemote remote;
  std::string src;
  std::unique_ptr<NodeCache> cache;
  StagedLower lower;
  UploadGrant grant;
  bool mounted = false;

  World() : src(folder / "src") {
    CAIRN_CHECK(::mkdir(src.c_str(), 0755) == 0);
    for (const char* name : {"upper", "work", "merged"}) CAIRN_CHECK(::mkdir((folder / name).c_str(), 0755) == 0);
    NodeCacheOptions options;
    options.dir = folder / "cache";
    auto opened = NodeCache::open(options);
    CAIRN_CHECK(opened.has_value());
    cache = std::move(*opened);
  }
  ~World() { unmount(); }
  void unmount() {
    if (mounted) CAIRN_CHECK(::umount2((folder / "merged").c_str(), MNT_DETACH) == 0);
    mounted = false;
  }
  void put_all() {
    PutOptions put;
    put.local = src + "/";
    put.remote = "/";
    put.mirror = true;
    put.state_dir = folder / "state";
    put.cache_dir = folder / "client-cache";
    put.pack_buffer_bytes = 80 << 20;
    Progress progress;
    auto summary = transfer::put(remote, put, progress, Deadline::never());
    CAIRN_CHECK(summary.has_value());
  }
  Result<StagedLower> stage() {
    auto pin = remote.pin(std::nullopt, Deadline::never());
    CAIRN_CHECK(pin.has_value());
    Progress progress;
    return cache->stage(remote, *pin, progress, Deadline::never());
  }
  void open_upload() {
    auto opened = remote.open_upload("run", "", Deadline::never());
    CAIRN_CHECK(opened.has_value());
    grant = *opened;
  }
  // Stages, takes the lease and mounts an overlay; false, with the reason, where none can be mounted.
  bool start_overlay(std::string* reason) {
    auto staged = stage();
    CAIRN_CHECK(staged.has_value());
    lower = *staged;
    open_upload();
    copy_manifest();
    os::OverlaySpec spec;
    spec.lowers = {lower.tree_dir};
    spec.upper = folder / "upper";
    spec.work = folder / "work";
    spec.target = folder / "merged";
    Status status = os::mount_overlay(spec);
    if (!status) *reason = status.error().to_string();
    mounted = status.has_value();
    return mounted;
  }
  void start_copy() {
    auto staged = stage();
    CAIRN_CHECK(staged.has_value());
    lower = *staged;
    open_upload();
    Progress progress;
    auto copied = copy_lower(lower, folder / "merged", folder / "manifest", 2, progress, Deadline::never());
    CAIRN_CHECK(copied.has_value());
  }
  void copy_manifest() {
    auto text = os::posix_file_system().read_file(lower.manifest_file, 1 << 30);
    CAIRN_CHECK(text.has_value());
    testing::write_local(folder / "manifest", *text);
  }
  Result<SyncSummary> sync_all(bool dry_run = false) {
    SyncOptions options;
    options.mounted_dir = folder / "merged";
    if (mounted) options.upper_dir = folder / "upper";
    options.manifest_file = folder / "manifest";
    options.scratch_dir = folder / "scratch";
    options.pack_buffer_bytes = 80 << 20;
    options.dry_run = dry_run;
    Progress progress;
    return transfer::sync(remote, grant, options, progress, Deadline::never());
  }
  std::string merged(const std::string& path) { return folder / ("merged/" + path); }
};

// The head holds exactly what stands in the mount, special files left out.
void expect_equal(FakeRemote& remote, const std::string& root) {
  LocalTree local = testing::read_local(root);
  std::erase_if(local, [](const auto& item) { return item.second.type == os::FileType::kOther; });
  FakeRemote::Tree head = remote.head();
  std::string extra, missing;
  for (const auto& [path, entry] : head) extra += local.contains(path) ? "" : path + " ";
  for (const auto& [path, entry] : local) missing += head.contains(path) ? "" : path + " ";
  ASSERT_EQ(extra, "");
  ASSERT_EQ(missing, "");
  for (const auto& [path, entry] : local) {
    const store::Entry& there = head[path];
    EXPECT_EQ(there.mtime_ns, entry.mtime_ns) << path;
    if (entry.type == os::FileType::kSymlink) {
      EXPECT_EQ(there.target, entry.data) << path;
      continue;
    }
    EXPECT_EQ(there.mode, entry.mode) << path;
    if (entry.type == os::FileType::kDirectory) {
      EXPECT_EQ(there.kind, store::EntryKind::kDirectory) << path;
      continue;
    }
    auto data = remote.contents(path);
    ASSERT_TRUE(data) << data.error().to_string();
    EXPECT_TRUE(std::string(data->begin(), data->end()) == entry.data) << path;
  }
}

TEST(Stage, StagesVerifiesAndReuses) {
  World world;
  SeededRandom random(1);
  testing::make_random_tree(world.src, random, 200, true);
  world.put_all();
  auto first = world.stage();
  ASSERT_TRUE(first) << first.error().to_string();
  EXPECT_FALSE(first->reused);
  EXPECT_TRUE(testing::read_local(first->tree_dir) == testing::read_local(world.src));
  auto again = world.stage();
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->reused);
  EXPECT_EQ(again->bytes_received, 0u);
  EXPECT_EQ(again->tree_dir, first->tree_dir);
}

TEST(Stage, LinksUnchangedFilesAndKeepsBothIntact) {
  World world;
  SeededRandom random(2);
  testing::make_random_tree(world.src, random, 150, false);
  testing::write_local(world.src + "/same", testing::random_bytes(random, 3 << 20), 0644, 1'600'000'000'000'000'000);
  testing::write_local(world.src + "/other-mode", testing::random_bytes(random, 3000), 0644, 1'600'000'000'000'000'000);
  world.put_all();
  auto first = world.stage();
  ASSERT_TRUE(first);
  LocalTree before = testing::read_local(world.src);
  ASSERT_EQ(::chmod((world.src + "/other-mode").c_str(), 0600), 0);
  testing::write_local(world.src + "/new", "new");
  world.put_all();
  auto second = world.stage();
  ASSERT_TRUE(second) << second.error().to_string();
  EXPECT_FALSE(second->reused);
  EXPECT_GT(second->files_linked, 20u);
  EXPECT_LT(second->bytes_received, 100'000u);
  EXPECT_TRUE(testing::read_local(second->tree_dir) == testing::read_local(world.src));
  EXPECT_TRUE(testing::read_local(first->tree_dir) == before);
  struct stat a, b;
  ASSERT_EQ(::stat((first->tree_dir + "/other-mode").c_str(), &a), 0);
  ASSERT_EQ(::stat((second->tree_dir + "/other-mode").c_str(), &b), 0);
  EXPECT_NE(a.st_ino, b.st_ino) << "one inode has one mode";
  // Links change ctime; both are still accepted as they are.
  auto again = world.stage();
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->reused);
}

TEST(Stage, ADamagedCacheIsStagedAnew) {
  World world;
  testing::write_local(world.src + "/a", "right");
  world.put_all();
  auto first = world.stage();
  ASSERT_TRUE(first);
  std::string file = first->tree_dir + "/a";
  first->use.reset();
  testing::write_local(file, "wrong");
  auto again = world.stage();
  ASSERT_TRUE(again) << again.error().to_string();
  EXPECT_FALSE(again->reused);
  EXPECT_EQ(testing::read_local(again->tree_dir)["a"].data, "right");
}

std::string manifest_of(const StagedLower& lower) {
  auto bytes = os::posix_file_system().read_file(lower.manifest_file, 1 << 20);
  CAIRN_CHECK(bytes.has_value());
  return *bytes;
}

TEST(Stage, ALowerThatSharedItsFilesOutlivesTheOtherOne) {
  World world;
  testing::write_local(world.src + "/same", "same");
  testing::write_local(world.src + "/v", "1");
  world.put_all();
  auto first = world.stage();
  ASSERT_TRUE(first);
  testing::write_local(world.src + "/v", "two");
  world.put_all();
  auto second = world.stage();
  ASSERT_TRUE(second);
  ASSERT_EQ(second->files_linked, 1u);
  first->use.reset();
  ASSERT_TRUE(world.cache->evict(0, Deadline::never()));
  ASSERT_NE(::access(first->tree_dir.c_str(), F_OK), 0);
  std::string before = manifest_of(*second);
  second->use.reset();

  // The file has one name again and another ctime; it is read, nothing is fetched, and the manifest learns the time once.
  auto again = world.stage();
  ASSERT_TRUE(again) << again.error().to_string();
  EXPECT_TRUE(again->reused);
  std::string renewed = manifest_of(*again);
  EXPECT_NE(renewed, before);
  again = world.stage();
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->reused);
  EXPECT_EQ(manifest_of(*again), renewed);
  again->use.reset();

  // Other bytes of the same size and time are still found.
  std::string file = again->tree_dir + "/same";
  struct stat st {};
  ASSERT_EQ(::stat(file.c_str(), &st), 0);
  int fd = ::open(file.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(::pwrite(fd, "SAME", 4, 0), 4);
  timespec times[2] = {st.st_atim, st.st_mtim};
  ASSERT_EQ(::futimens(fd, times), 0);
  ::close(fd);
  again = world.stage();
  ASSERT_TRUE(again) << again.error().to_string();
  EXPECT_FALSE(again->reused);
  EXPECT_EQ(testing::read_local(again->tree_dir)["same"].data, "same");
}

TEST(Stage, AKeptLowerStaysUntilAnotherStandsInItsPlace) {
  World world;
  testing::write_local(world.src + "/a", "right");
  testing::write_local(world.src + "/b", "whole");
  world.put_all();
  auto first = world.stage();
  ASSERT_TRUE(first);
  ASSERT_TRUE(world.cache->keep(first->root, "attempt"));
  first->use.reset();
  testing::write_local(first->tree_dir + "/a", "wrong");
  world.remote.before = [](const std::string& operation) -> Status {
    if (operation == "get_range") return Error(Code::kStoreUnavailable, "away");
    return ok();
  };
  EXPECT_EQ(world.stage().error().code(), Code::kStoreUnavailable);
  EXPECT_EQ(testing::read_local(first->tree_dir)["b"].data, "whole");
  world.remote.before = {};
  auto again = world.stage();
  ASSERT_TRUE(again) << again.error().to_string();
  EXPECT_EQ(again->tree_dir, first->tree_dir);
  EXPECT_EQ(testing::read_local(again->tree_dir)["a"].data, "right");
}

TEST(Stage, WaitsForAnotherStagingOfTheSameAsLongAsItsDeadline) {
  World world;
  testing::write_local(world.src + "/a", "a");
  world.put_all();
  auto pin = world.remote.pin(std::nullopt, Deadline::never());
  ASSERT_TRUE(pin);
  int lock = ::open((world.folder / "cache/locks/" + pin->root + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0);
  Progress progress;
  auto staged = world.cache->stage(world.remote, *pin, progress, Deadline::after(milliseconds(50)));
  ASSERT_FALSE(staged);
  EXPECT_EQ(staged.error().code(), Code::kBusy) << staged.error().to_string();
  EXPECT_NE(staged.error().message().find(pin->root), std::string::npos);
  CancelToken token;
  token.cancel();
  EXPECT_EQ(world.cache->stage(world.remote, *pin, progress, Deadline::never(token)).error().code(), Code::kCancelled);
  ::close(lock);
  EXPECT_TRUE(world.cache->stage(world.remote, *pin, progress, Deadline::never()));
}

TEST(Stage, PinsTheSameSnapshotAgainWhenThePinDied) {
  World world;
  testing::write_local(world.src + "/a", "one");
  world.put_all();
  auto pin = world.remote.pin(std::nullopt, Deadline::never());
  ASSERT_TRUE(pin);
  testing::write_local(world.src + "/a", "two");
  world.put_all();
  world.remote.lose_pins();
  Progress progress;
  auto staged = world.cache->stage(world.remote, *pin, progress, Deadline::never());
  ASSERT_TRUE(staged) << staged.error().to_string();
  EXPECT_EQ(testing::read_local(staged->tree_dir)["a"].data, "one");
}

TEST(Stage, ATimeThatTheFileSystemCannotHoldIsNoDamageAndNoChange) {
  constexpr int64_t kYear1850 = -3'786'825'600 * 1'000'000'000;
  World world;
  testing::write_local(world.src + "/old", "a letter");
  world.put_all();
  FakeRemote::Tree tree = world.remote.head();
  tree["old"].mtime_ns = kYear1850;
  world.remote.set_head(tree);
  auto staged = world.stage();
  ASSERT_TRUE(staged) << staged.error().to_string();
  world.start_copy();
  auto summary = world.sync_all(true);
  ASSERT_TRUE(summary) << summary.error().to_string();
  EXPECT_EQ(summary->files_changed, 0u);
}

TEST(Stage, DamageInTheStoreIsVolumeSyncIncomplete) {
  World world;
  testing::write_local(world.src + "/a", "right");
  world.put_all();
  world.remote.corrupt = [](const PackId&, uint64_t, std::span<uint8_t> bytes) { bytes[bytes.size() - 1] ^= 1; };
  EXPECT_EQ(world.stage().error().code(), Code::kVolumeSyncIncomplete);
  world.remote.corrupt = {};
  EXPECT_TRUE(world.stage());
}

TEST(Stage, RefusesWhatDoesNotFitTheNode) {
  World world;
  testing::write_local(world.src + "/a", "a");
  world.put_all();
  FakeRemote::Tree tree = world.remote.head();
  for (int i = 0; i < 1000; ++i) {
    store::Entry huge = tree["a"];
    huge.path = "huge" + std::to_string(i);
    huge.chunks.clear();
    huge.size = 0;
    for (int j = 0; j < 64; ++j) {
      store::ChunkRef chunk = tree["a"].chunks[0];
      chunk.raw_len = 4 << 20;
      huge.chunks.push_back(chunk);
      huge.size += chunk.raw_len;
    }
    huge.chunk_count = huge.chunks.size();
    tree[huge.path] = huge;
  }
  world.remote.set_head(tree);
  auto staged = world.stage();
  ASSERT_FALSE(staged);
  EXPECT_EQ(staged.error().code(), Code::kVolumeTooLargeForNode) << staged.error().to_string();
}

TEST(Stage, EvictionSparesWhatIsUsedOrKept) {
  World world;
  std::vector<StagedLower> lowers;
  for (int i = 0; i < 4; ++i) {
    testing::write_local(world.src + "/a", std::string(1000, static_cast<char>('a' + i)));
    world.put_all();
    auto staged = world.stage();
    ASSERT_TRUE(staged) << staged.error().to_string();
    lowers.push_back(*staged);
  }
  ASSERT_TRUE(world.cache->keep(lowers[0].root, "attempt"));
  lowers[0].use.reset();
  lowers[1].use.reset();
  lowers[2].use.reset();
  ASSERT_TRUE(world.cache->evict(0, Deadline::never()));
  EXPECT_EQ(::access(lowers[0].tree_dir.c_str(), F_OK), 0) << "kept";
  EXPECT_NE(::access(lowers[1].tree_dir.c_str(), F_OK), 0);
  EXPECT_NE(::access(lowers[2].tree_dir.c_str(), F_OK), 0);
  EXPECT_EQ(::access(lowers[3].tree_dir.c_str(), F_OK), 0) << "in use";
  ASSERT_TRUE(world.cache->reopen(lowers[0].root));
  EXPECT_EQ(world.cache->reopen(lowers[1].root).error().code(), Code::kPathNotFound);
  ASSERT_TRUE(world.cache->release(lowers[0].root, "attempt"));
  ASSERT_TRUE(world.cache->evict(0, Deadline::never()));
  EXPECT_NE(::access(lowers[0].tree_dir.c_str(), F_OK), 0);
}

// Never waits for the other end of a pipe.
void write_some(const std::string& path, int flags, std::string_view data) {
  int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_NONBLOCK | O_CLOEXEC | flags, 0644);
  if (fd < 0) return;
  (void)os::write_all(fd, {reinterpret_cast<const uint8_t*>(data.data()), data.size()}, path).has_value();
  ::close(fd);
}

// Random operations of a run on its volume.
void random_operation(const std::string& root, SeededRandom& random) {
  LocalTree tree = testing::read_local(root);
  std::vector<std::string> folders{""}, files;
  for (const auto& [path, entry] : tree) (entry.type == os::FileType::kDirectory ? folders : files).push_back(path);
  auto any_folder = [&] { return folders[random.below(folders.size())]; };
  auto some_path = [&] { return root + "/" + store::join_path(any_folder(), std::string(1, static_cast<char>('a' + random.below(10)))); };
  auto some_file = [&] { return files.empty() ? some_path() : root + "/" + files[random.below(files.size())]; };
  auto remove_tree = [&](const std::string& path) {
    auto folder = os::Directory::open(os::parent_path(path));
    if (folder) (void)folder->remove_tree(std::string(store::base_name(path))).has_value();
  };
  switch (random.below(16)) {
    case 0: write_some(some_path(), O_TRUNC, testing::random_bytes(random, random.below(200))); break;
    case 1: write_some(some_file(), O_APPEND, "x"); break;
    case 2: (void)!::truncate(some_file().c_str(), 3); break;
    case 3: (void)!::chmod(some_file().c_str(), random.below(2) ? 0600 : 0644); break;
    case 4: (void)!::utimensat(AT_FDCWD, some_file().c_str(), nullptr, AT_SYMLINK_NOFOLLOW); break;
    case 5: (void)!::unlink(some_file().c_str()); break;
    case 6: {
      std::string folder = any_folder();
      if (!folder.empty()) remove_tree(root + "/" + folder);
      break;
    }
    case 7: (void)!::mkdir(some_path().c_str(), 0755); break;
    case 8:
    case 9: (void)!::rename(some_file().c_str(), some_path().c_str()); break;
    case 10: {
      std::string folder = any_folder();
      if (!folder.empty()) (void)!::rename((root + "/" + folder).c_str(), some_path().c_str());
      break;
    }
    case 11: (void)!::link(some_file().c_str(), some_path().c_str()); break;
    case 12: {  // out of the volume too; what follows it meets a decoy
      std::string outside = os::parent_path(root) + "/outside";
      (void)!::symlink(random.below(2) ? "a" : outside.c_str(), some_path().c_str());
      break;
    }
    case 13: {  // a folder becomes a file
      std::string path = some_path();
      remove_tree(path);
      write_some(path, O_TRUNC, "now a file");
      break;
    }
    case 14: {  // a file becomes a folder; a folder is made anew (opaque)
      std::string path = some_path();
      remove_tree(path);
      if (::mkdir(path.c_str(), 0755) == 0) write_some(path + "/inside", O_TRUNC, "x");
      break;
    }
    case 15: (void)!::mkfifo(some_path().c_str(), 0644); break;
  }
}

// Several publications of one attempt, each compared with the mount.
void random_history(World& world, SeededRandom& random) {
  for (int round = 0; round < 3; ++round) {
    uint64_t count = random.below(25);
    for (uint64_t i = 0; i < count; ++i) random_operation(world.folder / "merged", random);
    auto pending = world.sync_all(true);
    ASSERT_TRUE(pending) << pending.error().to_string();
    auto synced = world.sync_all();
    ASSERT_TRUE(synced) << synced.error().to_string();
    expect_equal(world.remote, world.folder / "merged");
    if (::testing::Test::HasFatalFailure()) return;
    auto again = world.sync_all();
    ASSERT_TRUE(again);
    EXPECT_FALSE(again->published) << "nothing changed since";
  }
}

TEST(Sync, OverlayHistories) {
  int done = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    World world;
    SeededRandom random(seed);
    testing::make_random_tree(world.src, random, 30, false);
    for (char c = 'a'; c <= 'e'; ++c) testing::write_local(world.src + "/" + c, std::string(20, c));
    world.put_all();
    std::string reason;
    if (!world.start_overlay(&reason)) GTEST_SKIP() << "no overlay can be mounted here: " << reason;
    random_history(world, random);
    if (HasFatalFailure()) return;
    ++done;
  }
  EXPECT_EQ(done, 40);
}

TEST(Sync, PlainCopyHistories) {
  for (uint64_t seed = 101; seed <= 125; ++seed) {
    SCOPED_TRACE(seed);
    World world;
    SeededRandom random(seed);
    testing::make_random_tree(world.src, random, 30, false);
    world.put_all();
    world.start_copy();
    EXPECT_FALSE(world.sync_all()->published);
    random_history(world, random);
    if (HasFatalFailure()) return;
  }
}

TEST(Sync, APublishedFileThatIsPrunedIsDeletedThoughUpperShowsNothing) {
  World world;
  testing::write_local(world.src + "/a", "a");
  world.put_all();
  std::string reason;
  if (!world.start_overlay(&reason)) GTEST_SKIP() << "no overlay can be mounted here: " << reason;
  ASSERT_TRUE(os::posix_file_system().make_directories(world.merged("runs/r/checkpoints/step_1"), 0755));
  testing::write_local(world.merged("runs/r/checkpoints/step_1/w"), "weights");
  testing::write_local(world.merged("top"), "top");
  ASSERT_TRUE(world.sync_all());
  EXPECT_TRUE(world.remote.head().contains("runs/r/checkpoints/step_1/w"));
  auto merged = os::Directory::open(world.folder / "merged");
  ASSERT_TRUE(merged);
  ASSERT_TRUE(merged->remove_tree("runs"));
  ASSERT_EQ(::unlink(world.merged("top").c_str()), 0);
  auto summary = world.sync_all();
  ASSERT_TRUE(summary) << summary.error().to_string();
  EXPECT_EQ(summary->files_deleted, 6u);
  EXPECT_EQ(world.remote.head().size(), 1u);
}

TEST(Sync, EqualSizeAndTimeAreNotBelieved) {
  World world;
  testing::write_local(world.src + "/model", "AAAA", 0644, 1'600'000'000'000'000'000);
  world.put_all();
  std::string reason;
  if (!world.start_overlay(&reason)) GTEST_SKIP() << "no overlay can be mounted here: " << reason;
  testing::write_local(world.merged("model"), "BBBB", 0644, 1'600'000'000'000'000'000);
  auto summary = world.sync_all();
  ASSERT_TRUE(summary);
  EXPECT_TRUE(summary->published);
  expect_equal(world.remote, world.folder / "merged");
  // Copied up without a change: read, found equal, not published.
  World same;
  testing::write_local(same.src + "/model", "AAAA", 0644, 1'600'000'000'000'000'000);
  same.put_all();
  ASSERT_TRUE(same.start_overlay(&reason));
  int fd = ::open(same.merged("model").c_str(), O_RDWR);
  ASSERT_GE(fd, 0);
  ::close(fd);
  EXPECT_FALSE(same.sync_all()->published);
}

TEST(Sync, MovedContentsAreNotSent) {
  World world;
  SeededRandom random(4);
  testing::write_local(world.src + "/weights", testing::random_bytes(random, 30 << 20));
  world.put_all();
  world.start_copy();
  ASSERT_EQ(::rename(world.merged("weights").c_str(), world.merged("renamed").c_str()), 0);
  auto summary = world.sync_all();
  ASSERT_TRUE(summary) << summary.error().to_string();
  EXPECT_TRUE(summary->published);
  EXPECT_LT(summary->bytes_sent, 1u << 20);
  expect_equal(world.remote, world.folder / "merged");
}

TEST(Sync, GoesOnAfterACutAtAnyPoint) {
  for (uint64_t fail_at = 1; fail_at <= 8; ++fail_at) {
    SCOPED_TRACE(fail_at);
    World world;
    SeededRandom random(fail_at);
    testing::make_random_tree(world.src, random, 30, false);
    world.put_all();
    world.start_copy();
    for (int i = 0; i < 10; ++i) random_operation(world.folder / "merged", random);
    testing::write_local(world.merged("checkpoint"), testing::random_bytes(random, 3 << 20));
    std::atomic<uint64_t> calls{0};
    auto cut = [&](const std::string&) -> Status { return ++calls >= fail_at ? Status(Error(Code::kInternal, "cut")) : ok(); };
    world.remote.after = cut;
    (void)world.sync_all().has_value();
    world.remote.after = {};
    auto summary = world.sync_all();
    ASSERT_TRUE(summary) << summary.error().to_string();
    expect_equal(world.remote, world.folder / "merged");
  }
}

}  // namespace
}  // namespace cairn::transfer
