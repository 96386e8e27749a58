#include "transfer/put.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "testing/fake_remote.h"
#include "testing/local_trees.h"
#include "testing/temporary_folder.h"
#include "transfer/journal.h"

namespace cairn::transfer {
namespace {

using testing::FakeRemote;
using testing::LocalTree;
using testing::TemporaryFolder;

struct World {
  TemporaryFolder folder;
  FakeRemote remote;
  std::vector<Notice> notices;
  std::string src;

  World() : src(folder / "src") { CAIRN_CHECK(::mkdir(src.c_str(), 0755) == 0); }
  PutOptions options(const std::string& local, const std::string& to) {
    PutOptions put;
    put.local = local;
    put.remote = to;
    put.state_dir = folder / "state";
    put.cache_dir = folder / "cache";
    put.pack_buffer_bytes = 80 << 20;
    return put;
  }
  Result<PutSummary> run(const PutOptions& put, Deadline deadline = Deadline::never()) {
    Progress progress([this](const Notice& notice) { notices.push_back(notice); });
    return transfer::put(remote, put, progress, deadline);
  }
  Result<PutSummary> put_all() { return run(options(src + "/", "/")); }
};

// The volume holds exactly what is on disk.
void expect_equal(FakeRemote& remote, const std::string& root) {
  LocalTree local = testing::read_local(root);
  FakeRemote::Tree head = remote.head();
  ASSERT_EQ(head.size(), local.size());
  for (const auto& [path, entry] : local) {
    ASSERT_TRUE(head.contains(path)) << path;
    const store::Entry& there = head[path];
    EXPECT_EQ(there.mtime_ns, entry.mtime_ns) << path;
    if (entry.type == os::FileType::kFile) {
      EXPECT_EQ(there.kind, store::EntryKind::kFile);
      EXPECT_EQ(there.mode, entry.mode);
      auto data = remote.contents(path);
      ASSERT_TRUE(data) << data.error().to_string();
      EXPECT_EQ(std::string(data->begin(), data->end()), entry.data) << path;
    } else if (entry.type == os::FileType::kSymlink) {
      EXPECT_EQ(there.target, entry.data);
    } else {
      EXPECT_EQ(there.kind, store::EntryKind::kDirectory);
      EXPECT_EQ(there.mode, entry.mode);
    }
  }
}

TEST(PutCheck, RefusesWhatPutWouldBeforeItAsksTheServer) {
  World world;
  CAIRN_CHECK(::mkdir((world.src + "/runs").c_str(), 0755) == 0);
  testing::write_local(world.src + "/runs/x", "x");
  auto code = [&](const std::string& local, const std::string& to) {
    Status checked = check_put(world.options(local, to));
    return checked ? std::string("ok") : std::string(wire_name(checked.error().code()));
  };
  EXPECT_EQ(code(world.src, "data"), "ok");
  EXPECT_EQ(code(world.src + "/runs/x", "x"), "ok");
  EXPECT_EQ(code("-", "x"), "ok");
  EXPECT_EQ(code("-", "x/"), "path_invalid");
  EXPECT_EQ(code(world.src, "runs/x"), "runs_read_only");
  EXPECT_EQ(code(world.src, "../x"), "path_invalid");
  EXPECT_EQ(code(world.src + "/absent", "x"), "file_not_found");
  EXPECT_EQ(code(world.src + "/runs/x/", "x"), "path_type_conflict");
  EXPECT_EQ(code(world.src + "/", "/"), "runs_read_only");
  PutOptions without = world.options(world.src + "/", "/");
  without.scan.exclude = {"/runs/"};
  EXPECT_TRUE(check_put(without));
}

TEST(PutTarget, FollowsTheRsyncRule) {
  auto target = [](const std::string& remote, bool contents, bool directory) {
    auto answer = resolve_put_target(remote, "my-data", contents, directory);
    return answer ? answer->path : "error " + std::string(wire_name(answer.error().code()));
  };
  EXPECT_EQ(target("datasets/", false, true), "datasets/my-data");
  EXPECT_EQ(target("datasets/my-data", true, true), "datasets/my-data");
  EXPECT_EQ(target("datasets/x", false, true), "datasets/x");
  EXPECT_EQ(target("datasets/x/", true, true), "datasets/x");
  EXPECT_EQ(target("", false, true), "my-data");
  EXPECT_EQ(target("/", true, true), "");
  EXPECT_EQ(target("models/m/", false, false), "models/m/my-data");
  EXPECT_EQ(target("a//b/./", false, false), "a/b/my-data");
  EXPECT_EQ(target("a/../b", false, false), "error path_invalid");
  EXPECT_EQ(target("runs", false, true), "error runs_read_only");
  EXPECT_EQ(target("//runs/./x", false, true), "error runs_read_only");
  EXPECT_EQ(target("runs/", false, true), "error runs_read_only");
  EXPECT_EQ(target("runsx", false, true), "runsx");
}

TEST(Put, RandomTreesArriveWholeAndAgainSendsNothing) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(seed);
    World world;
    SeededRandom random(seed);
    testing::make_random_tree(world.src, random, 150, seed % 2 == 0);
    auto first = world.put_all();
    ASSERT_TRUE(first) << first.error().to_string();
    EXPECT_TRUE(first->published);
    EXPECT_EQ(first->snapshot, 1u);
    expect_equal(world.remote, world.src);
    EXPECT_FALSE(world.remote.lease_held());

    uint64_t before = world.remote.bytes_put();
    auto again = world.put_all();
    ASSERT_TRUE(again) << again.error().to_string();
    EXPECT_FALSE(again->published);
    EXPECT_EQ(again->snapshot, 1u);
    EXPECT_EQ(again->bytes_sent, 0u);
    EXPECT_EQ(again->files, first->files);
    EXPECT_EQ(world.remote.bytes_put(), before);
    // And without any cache: everything is hashed, nothing is sent.
    PutOptions checksum = world.options(world.src + "/", "/");
    checksum.checksum = true;
    auto hashed = world.run(checksum);
    ASSERT_TRUE(hashed);
    EXPECT_FALSE(hashed->published);
    EXPECT_EQ(world.remote.bytes_put(), before);
  }
}

TEST(Put, ChangesReplacesAddsAndMirrorDeletes) {
  World world;
  SeededRandom random(7);
  testing::make_random_tree(world.src, random, 120, false);
  ASSERT_TRUE(world.put_all());
  testing::write_local(world.src + "/new", "fresh");
  testing::write_local(world.src + "/keep", "to go");
  ASSERT_TRUE(world.put_all());
  expect_equal(world.remote, world.src);
  ASSERT_EQ(::unlink((world.src + "/keep").c_str()), 0);
  ASSERT_EQ(::chmod((world.src + "/new").c_str(), 0600), 0);
  uint64_t packs = world.remote.packs_put();
  auto added = world.put_all();
  ASSERT_TRUE(added);
  EXPECT_TRUE(world.remote.head().contains("keep"));
  EXPECT_EQ(world.remote.head()["new"].mode, 0600u);
  EXPECT_EQ(world.remote.packs_put(), packs + 1) << "only the changeset";
  PutOptions mirror = world.options(world.src + "/", "/");
  mirror.mirror = true;
  auto mirrored = world.run(mirror);
  ASSERT_TRUE(mirrored) << mirrored.error().to_string();
  EXPECT_EQ(mirrored->files_deleted, 1u);
  expect_equal(world.remote, world.src);
}

TEST(Put, MirrorSparesRunsAndExcludedNames) {
  World world;
  FakeRemote::Tree tree;
  for (const char* path : {"runs", "runs/r1", "data"}) tree[path] = store::Entry{path, store::EntryKind::kDirectory, 0755, 1, 0, "", 0, {}, {}};
  for (const char* path : {"runs/r1/log", "data/a", "b.tmp", "c"}) tree[path] = store::Entry{path, store::EntryKind::kFile, 0644, 1, 0, "", 0, {}, {}};
  world.remote.set_head(tree);
  testing::write_local(world.src + "/x", "x");
  PutOptions mirror = world.options(world.src + "/", "/");
  mirror.mirror = true;
  mirror.scan.exclude = {"*.tmp"};
  auto summary = world.run(mirror);
  ASSERT_TRUE(summary) << summary.error().to_string();
  std::vector<std::string> left;
  for (const auto& [path, entry] : world.remote.head()) left.push_back(path);
  EXPECT_EQ(left, (std::vector<std::string>{"b.tmp", "runs", "runs/r1", "runs/r1/log", "x"}));
}

TEST(Put, RefusesConflictsBeforeAnythingIsSent) {
  World world;
  FakeRemote::Tree tree;
  tree["a"] = store::Entry{"a", store::EntryKind::kFile, 0644, 1, 0, "", 0, {}, {}};
  tree["z/b"] = store::Entry{"z/b", store::EntryKind::kFile, 0644, 1, 0, "", 0, {}, {}};
  world.remote.set_head(tree);
  testing::write_local(world.src + "/0", "first in order");
  ASSERT_EQ(::mkdir((world.src + "/a").c_str(), 0755), 0);
  auto folder_over_file = world.put_all();
  ASSERT_FALSE(folder_over_file);
  EXPECT_EQ(folder_over_file.error().code(), Code::kPathTypeConflict);
  ASSERT_EQ(::rmdir((world.src + "/a").c_str()), 0);
  testing::write_local(world.src + "/z", "over an implied folder");
  EXPECT_EQ(world.put_all().error().code(), Code::kPathTypeConflict);
  EXPECT_EQ(world.run(world.options(world.src + "/0", "a/b/c")).error().code(), Code::kPathTypeConflict);
  ASSERT_EQ(::unlink((world.src + "/z").c_str()), 0);
  ASSERT_EQ(::mkdir((world.src + "/runs").c_str(), 0755), 0);
  EXPECT_EQ(world.put_all().error().code(), Code::kRunsReadOnly);
  EXPECT_EQ(world.remote.bytes_put(), 0u);
  EXPECT_FALSE(world.remote.lease_held());
}

TEST(Put, SkipsSpecialFilesAndLinksThatLeave) {
  World world;
  testing::write_local(world.folder / "outside", "secret");
  testing::write_local(world.src + "/file", "inside");
  ASSERT_EQ(::mkdir((world.src + "/d").c_str(), 0755), 0);
  ASSERT_EQ(::symlink("../file", (world.src + "/d/stays").c_str()), 0);
  ASSERT_EQ(::symlink("../../outside", (world.src + "/d/leaves").c_str()), 0);
  ASSERT_EQ(::symlink("/etc/passwd", (world.src + "/absolute").c_str()), 0);
  ASSERT_EQ(::mkfifo((world.src + "/pipe").c_str(), 0644), 0);
  auto summary = world.put_all();
  ASSERT_TRUE(summary) << summary.error().to_string();
  EXPECT_EQ(summary->skipped, 3u);
  EXPECT_EQ(world.notices.size(), 3u);
  EXPECT_TRUE(world.remote.head().contains("d/stays"));
  EXPECT_EQ(world.remote.head().size(), 3u);

  World following;
  PutOptions follow = following.options(world.src + "/", "/");
  follow.scan.follow_links = true;
  auto followed = following.run(follow);
  ASSERT_TRUE(followed) << followed.error().to_string();
  auto data = following.remote.contents("d/leaves");
  ASSERT_TRUE(data);
  EXPECT_EQ(std::string(data->begin(), data->end()), "secret");
}

TEST(Put, FilesAndStandardInput) {
  World world;
  testing::write_local(world.src + "/model.bin", "weights");
  ASSERT_TRUE(world.run(world.options(world.src + "/model.bin", "models/m/")));
  EXPECT_TRUE(world.remote.head().contains("models/m/model.bin"));
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  SeededRandom random(3);
  std::string data = testing::random_bytes(random, 9 << 20);
  std::thread writer([&] {
    CAIRN_CHECK(os::write_all(ends[1], {reinterpret_cast<const uint8_t*>(data.data()), data.size()}, "pipe").has_value());
    ::close(ends[1]);
  });
  PutOptions put = world.options("-", "from/pipe");
  put.stdin_fd = ends[0];
  auto summary = world.run(put);
  writer.join();
  ::close(ends[0]);
  ASSERT_TRUE(summary) << summary.error().to_string();
  EXPECT_EQ(summary->bytes, data.size());
  auto stored = world.remote.contents("from/pipe");
  ASSERT_TRUE(stored);
  EXPECT_TRUE(std::equal(stored->begin(), stored->end(), data.begin(), data.end(),
                         [](uint8_t a, char b) { return a == static_cast<uint8_t>(b); }));
  EXPECT_EQ(world.run(world.options("-", "folder/")).error().code(), Code::kPathInvalid);
}

TEST(Put, InsertingInABigFileSendsLittle) {
  World world;
  SeededRandom random(11);
  std::string data = testing::random_bytes(random, 96 << 20);
  testing::write_local(world.src + "/big", data);
  auto first = world.put_all();
  ASSERT_TRUE(first) << first.error().to_string();
  EXPECT_GE(first->bytes_sent, data.size());
  data.insert(data.size() / 2, testing::random_bytes(random, 1 << 20));
  testing::write_local(world.src + "/big", data);
  auto second = world.put_all();
  ASSERT_TRUE(second);
  EXPECT_LE(second->bytes_sent, 8u << 20);
  expect_equal(world.remote, world.src);
}

TEST(Put, EqualFilesAreSentOnce) {
  World world;
  SeededRandom random(12);
  std::string data = testing::random_bytes(random, 20 << 20);
  for (int i = 0; i < 4; ++i) testing::write_local(world.src + "/copy" + std::to_string(i), data);
  auto summary = world.put_all();
  ASSERT_TRUE(summary);
  EXPECT_LE(summary->bytes_sent, data.size() + (1 << 20));
  // A folder that moved is found elsewhere on the volume.
  World moved;
  auto elsewhere = world.run(world.options(world.src, "other/place"));
  ASSERT_TRUE(elsewhere) << elsewhere.error().to_string();
  EXPECT_LE(elsewhere->bytes_sent, 1u << 20);
}

TEST(Put, ResumesAfterFailureAtAnyPoint) {
  World reference;
  SeededRandom random(21);
  testing::make_random_tree(reference.src, random, 60, false);
  testing::write_local(reference.src + "/big", testing::random_bytes(random, 38 << 20));
  ASSERT_TRUE(reference.put_all());
  uint64_t whole = reference.remote.bytes_put();
  uint64_t operations = reference.remote.operations();
  for (uint64_t fail_at = 1; fail_at <= operations; ++fail_at) {
    SCOPED_TRACE(fail_at);
    World world;
    world.src = reference.src;
    std::atomic<uint64_t> calls{0};
    std::atomic<bool> dead{false};
    // As a killed process sees it: from then on nothing gets through. Every other time the last call had its effect.
    auto dying = [&](const std::string&) -> Status {
      if (dead || calls.fetch_add(1) + 1 >= fail_at) {
        dead = true;
        return Error(Code::kInternal, "killed");
      }
      return ok();
    };
    (fail_at % 2 == 0 ? world.remote.before : world.remote.after) = dying;
    if (fail_at % 2 != 0) {
      world.remote.before = [&](const std::string&) -> Status { return dead ? Status(Error(Code::kInternal, "killed")) : ok(); };
    }
    auto killed = world.put_all();
    world.remote.before = {};
    world.remote.after = {};
    uint64_t arrived = world.remote.bytes_put();
    auto resumed = world.put_all();
    ASSERT_TRUE(resumed) << resumed.error().to_string();
    expect_equal(world.remote, world.src);
    EXPECT_FALSE(world.remote.lease_held());
    if (!killed && resumed->published && arrived < whole) {
      // What had arrived is not sent again; changesets are small.
      EXPECT_LE(world.remote.bytes_put(), whole + (3 << 20));
    }
  }
}

TEST(Put, CancelReleasesTheLease) {
  World world;
  SeededRandom random(31);
  testing::write_local(world.src + "/big", testing::random_bytes(random, 40 << 20));
  CancelToken token;
  world.remote.before = [&](const std::string& operation) -> Status {
    if (operation == "put_object") token.cancel();
    return ok();
  };
  auto summary = world.run(world.options(world.src + "/", "/"), Deadline::never(token));
  ASSERT_FALSE(summary);
  EXPECT_EQ(summary.error().code(), Code::kCancelled);
  EXPECT_FALSE(world.remote.lease_held());
  EXPECT_EQ(world.remote.snapshot(), 0u);
}

TEST(Put, LostLeaseEndsIt) {
  World world;
  SeededRandom random(32);
  testing::write_local(world.src + "/big", testing::random_bytes(random, 40 << 20));
  world.remote.after = [&](const std::string& operation) -> Status {
    if (operation == "put_object") world.remote.take_lease();
    return ok();
  };
  auto summary = world.put_all();
  ASSERT_FALSE(summary);
  EXPECT_EQ(summary.error().code(), Code::kLeaseLost);
  EXPECT_EQ(world.remote.snapshot(), 0u);
  auto held = world.put_all();
  ASSERT_FALSE(held);
  EXPECT_EQ(held.error().code(), Code::kWriterLeaseHeld);
}

TEST(Put, SendsAgainWhatWasGone) {
  World world;
  SeededRandom random(33);
  testing::write_local(world.src + "/a", testing::random_bytes(random, 3 << 20));
  ASSERT_TRUE(world.put_all());
  ASSERT_EQ(::chmod((world.src + "/a").c_str(), 0600), 0);
  testing::write_local(world.src + "/b", "b");
  world.remote.lose_chunks_once();
  uint64_t before = world.remote.bytes_put();
  auto summary = world.put_all();
  ASSERT_TRUE(summary) << summary.error().to_string();
  EXPECT_TRUE(summary->published);
  EXPECT_GE(world.remote.bytes_put(), before + (3 << 20));
  expect_equal(world.remote, world.src);
}

TEST(Put, AFileThatKeepsChangingIsNamed) {
  World world;
  SeededRandom random(34);
  testing::write_local(world.src + "/still", "still");
  testing::write_local(world.src + "/busy", testing::random_bytes(random, 12 << 20));
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    int fd = ::open((world.src + "/busy").c_str(), O_WRONLY);
    for (uint64_t i = 0; !stop; ++i) {
      CAIRN_CHECK(::pwrite(fd, &i, sizeof i, static_cast<off_t>(i % 1000)) == sizeof i);
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    ::close(fd);
  });
  auto summary = world.put_all();
  stop = true;
  writer.join();
  ASSERT_TRUE(summary) << summary.error().to_string();
  EXPECT_EQ(summary->failed, 1u);
  ASSERT_EQ(summary->failed_paths.size(), 1u);
  EXPECT_EQ(summary->failed_paths[0], "busy");
  EXPECT_TRUE(world.remote.head().contains("still"));
  EXPECT_FALSE(world.remote.head().contains("busy"));
}

TEST(Put, ScratchSpaceThatEndsInTheMiddleEndsThePut) {
  World world;
  // More results than one block of their spool holds, so that the first block is written by a thread that reads files.
  for (int i = 0; i < 1500; ++i) {
    testing::write_local(world.src + "/" + std::string(200, 'n') + std::to_string(i), std::to_string(i));
  }
  auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  // The plan is written by then.
  world.remote.before = [&](const std::string& operation) {
    rlimit little = before;
    little.rlim_cur = 64 << 10;
    if (operation == "resumable_packs") CAIRN_CHECK(::setrlimit(RLIMIT_FSIZE, &little) == 0);
    return ok();
  };
  auto summary = world.put_all();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(summary);
  EXPECT_NE(summary.error().message().find("spool file"), std::string::npos) << summary.error().to_string();
  EXPECT_EQ(world.remote.publications(), 0u);
  EXPECT_FALSE(world.remote.lease_held());
}

TEST(Put, DryRunTakesNoLeaseAndSendsNothing) {
  World world;
  testing::write_local(world.src + "/a", "a");
  PutOptions dry = world.options(world.src + "/", "/");
  dry.dry_run = true;
  world.remote.take_lease();
  auto summary = world.run(dry);
  ASSERT_TRUE(summary) << summary.error().to_string();
  EXPECT_EQ(summary->files_changed, 1u);
  EXPECT_EQ(world.remote.bytes_put(), 0u);
}

TEST(Put, AnUploadThatDiedHereDoesNotHoldUpAnother) {
  World world;
  testing::write_local(world.src + "/a", "a");
  PutOptions put = world.options(world.src + "/", "/");
  auto dead = Journal::open(put.state_dir, "another source");
  ASSERT_TRUE(dead);
  auto grant = world.remote.open_upload("another", "", Deadline::never());
  ASSERT_TRUE(grant);
  ASSERT_TRUE((*dead)->save(JournalEntry{"another volume", grant->upload, grant->secret}));
  dead->reset();
  EXPECT_EQ(world.run(put).error().code(), Code::kWriterLeaseHeld) << "an upload to another volume";
  dead = Journal::open(put.state_dir, "another source");
  ASSERT_TRUE((*dead)->save(JournalEntry{journal_scope(world.remote), grant->upload, grant->secret}));
  EXPECT_EQ(world.run(put).error().code(), Code::kWriterLeaseHeld) << "it lives";
  dead->reset();
  auto summary = world.run(put);
  ASSERT_TRUE(summary) << summary.error().to_string();
  EXPECT_TRUE(Journal::abandoned(put.state_dir, journal_scope(world.remote)).empty());
}

TEST(Put, ALivingUploadOfTheSameSourceIsNotTakenOver) {
  World world;
  testing::write_local(world.src + "/a", "a");
  PutOptions put = world.options(world.src + "/", "/");
  put.source = "here";
  auto journal = Journal::open(put.state_dir, std::string("fake\nhere\n"));
  ASSERT_TRUE(journal);
  Deadline deadline = Deadline::never();
  auto grant = world.remote.open_upload("here", "", deadline);
  ASSERT_TRUE(grant);
  ASSERT_TRUE((*journal)->save(JournalEntry{journal_scope(world.remote), grant->upload, grant->secret}));
  EXPECT_EQ(world.run(put).error().code(), Code::kWriterLeaseHeld);
  journal->reset();  // it dies
  auto summary = world.run(put);
  ASSERT_TRUE(summary) << summary.error().to_string();
  EXPECT_TRUE(summary->published);
}

}  // namespace
}  // namespace cairn::transfer
