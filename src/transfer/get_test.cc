#include "transfer/get.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <future>
#include <thread>

#include "store/changeset.h"
#include "testing/fake_remote.h"
#include "testing/local_trees.h"
#include "testing/temporary_folder.h"
#include "transfer/put.h"

namespace cairn::transfer {
namespace {

using testing::FakeRemote;
using testing::LocalTree;
using testing::TemporaryFolder;

struct World {
  TemporaryFolder folder;
  FakeRemote remote;
  std::string src, out;

  World() : src(folder / "src"), out(folder / "out") { CAIRN_CHECK(::mkdir(src.c_str(), 0755) == 0); }
  void put_all() {
    PutOptions put;
    put.local = src + "/";
    put.remote = "/";
    put.state_dir = folder / "state";
    put.cache_dir = folder / "cache";
    put.pack_buffer_bytes = 80 << 20;
    Progress progress;
    auto summary = transfer::put(remote, put, progress, Deadline::never());
    CAIRN_CHECK(summary.has_value());
  }
  GetOptions options(const std::string& from, const std::string& to) {
    GetOptions get;
    get.remote = from;
    get.local = to;
    get.cache_dir = folder / "cache";
    return get;
  }
  Result<GetSummary> run(const GetOptions& get) {
    Progress progress;
    return transfer::get(remote, get, progress, Deadline::never());
  }
  Result<GetSummary> get_all() { return run(options("/", out)); }
};

// Trees as `get` leaves them: everything, but for setuid and setgid.
LocalTree expected(const std::string& root) {
  LocalTree tree = testing::read_local(root);
  for (auto& [path, entry] : tree) {
    if (entry.type != os::FileType::kSymlink) entry.mode &= 01777;
  }
  return tree;
}

TEST(Get, RoundTripOfRandomTrees) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(seed);
    World world;
    SeededRandom random(seed);
    testing::make_random_tree(world.src, random, 150, seed % 2 == 0);
    world.put_all();
    auto first = world.get_all();
    ASSERT_TRUE(first) << first.error().to_string();
    EXPECT_TRUE(testing::read_local(world.out) == expected(world.src));
    auto again = world.get_all();
    ASSERT_TRUE(again) << again.error().to_string();
    EXPECT_EQ(again->bytes_received, 0u);
    EXPECT_EQ(again->files_written, 0u);
    GetOptions checksum = world.options("/", world.out);
    checksum.checksum = true;
    auto hashed = world.run(checksum);
    ASSERT_TRUE(hashed);
    EXPECT_EQ(hashed->bytes_received, 0u);
    EXPECT_TRUE(testing::read_local(world.out) == expected(world.src));
  }
}

TEST(Get, ChoosesTheDestinationByTheRsyncRule) {
  World world;
  ASSERT_EQ(::mkdir((world.src + "/data").c_str(), 0755), 0);
  testing::write_local(world.src + "/data/a", "a");
  world.put_all();
  auto there = [&](const std::string& path) { return ::access((world.folder / path).c_str(), F_OK) == 0; };
  ASSERT_TRUE(world.run(world.options("data", world.folder / "x/")));
  EXPECT_TRUE(there("x/data/a"));
  ASSERT_TRUE(world.run(world.options("data/", world.folder / "y")));
  EXPECT_TRUE(there("y/a"));
  ASSERT_TRUE(world.run(world.options("data", world.folder / "z")));
  EXPECT_TRUE(there("z/a"));
  ASSERT_TRUE(world.run(world.options("data/a", world.folder / "z")));
  ASSERT_TRUE(world.run(world.options("data/a", world.folder / "new/name")));
  EXPECT_TRUE(there("new/name"));
  ASSERT_TRUE(world.run(world.options("/data/a", world.folder / "into/")));
  EXPECT_TRUE(there("into/a"));
  EXPECT_EQ(world.run(world.options("nothing", world.folder / "q")).error().code(), Code::kPathNotFound);
}

TEST(Get, OverwritesOnlyWhatDiffers) {
  World world;
  SeededRandom random(3);
  testing::make_random_tree(world.src, random, 100, false);
  std::string data = testing::random_bytes(random, 20 << 20);
  testing::write_local(world.src + "/big", data, 0644, 1'700'000'000'000'000'000);
  world.put_all();
  ASSERT_TRUE(world.get_all());
  data[10 << 20] = static_cast<char>(data[10 << 20] + 1);
  testing::write_local(world.out + "/big", data);
  testing::write_local(world.out + "/more", "not on the volume");
  auto again = world.get_all();
  ASSERT_TRUE(again) << again.error().to_string();
  EXPECT_EQ(again->files_written, 1u);
  EXPECT_LE(again->bytes_received, 5u << 20);
  ASSERT_EQ(::unlink((world.out + "/more").c_str()), 0);
  EXPECT_EQ(testing::read_local(world.out)["big"].data, testing::read_local(world.src)["big"].data);
}

TEST(Get, GoesOnAfterAnInterruption) {
  World world;
  SeededRandom random(5);
  testing::write_local(world.src + "/big", testing::random_bytes(random, 60 << 20));
  testing::make_random_tree(world.src, random, 60, true);
  world.put_all();
  std::atomic<int> calls{0};
  world.remote.before = [&](const std::string& operation) -> Status {
    return operation == "get_range" && ++calls > 5 ? Status(Error(Code::kInternal, "cut")) : ok();
  };
  auto cut = world.get_all();
  ASSERT_FALSE(cut);
  for (const auto& [path, entry] : testing::read_local(world.out)) {
    if (entry.type != os::FileType::kFile || store::base_name(path).starts_with(".cairn-")) continue;
    EXPECT_TRUE(entry.data == testing::read_local(world.src)[path].data) << "half file under a final name: " << path;
  }
  world.remote.before = {};
  auto whole = world.get_all();
  ASSERT_TRUE(whole) << whole.error().to_string();
  EXPECT_GT(whole->chunks_reused, 3u) << "what had arrived was kept";
  EXPECT_TRUE(testing::read_local(world.out) == expected(world.src));
}

TEST(Get, TwoAtOnceIntoOnePlaceBothBringWholeFiles) {
  World world;
  SeededRandom random(9);
  testing::write_local(world.src + "/big", testing::random_bytes(random, 30 << 20));
  testing::write_local(world.src + "/small", testing::random_bytes(random, 1 << 20));
  ASSERT_EQ(::symlink("small", (world.src + "/link").c_str()), 0);
  world.put_all();
  // The first one stands still in the middle of the long file while the second one begins and ends.
  std::promise<void> in_the_middle, go_on;
  std::shared_future<void> may_go_on = go_on.get_future().share();
  std::atomic<int> calls{0};
  world.remote.before = [&](const std::string& operation) {
    if (operation != "get_range" || ++calls != 2) return ok();
    in_the_middle.set_value();
    may_go_on.wait();
    return ok();
  };
  GetOptions slow = world.options("/", world.out);
  slow.jobs = 1;
  slow.cache_dir = world.folder / "another-cache";
  std::optional<Result<GetSummary>> first;
  std::thread thread([&] {
    Progress progress;
    first = transfer::get(world.remote, slow, progress, Deadline::never());
  });
  in_the_middle.get_future().wait();
  auto second = world.get_all();
  bool whole = testing::read_local(world.out)["big"].data == testing::read_local(world.src)["big"].data;
  go_on.set_value();
  thread.join();
  ASSERT_TRUE(second) << second.error().to_string();
  EXPECT_TRUE(whole);
  ASSERT_TRUE(*first) << first->error().to_string();
  EXPECT_TRUE(testing::read_local(world.out) == expected(world.src)) << "and nothing unfinished lies there";
}

TEST(Get, DamageIsNamedAndLeavesNoFile) {
  World world;
  SeededRandom random(6);
  testing::write_local(world.src + "/precious", testing::random_bytes(random, 3 << 20));
  world.put_all();
  world.remote.corrupt = [](const PackId&, uint64_t, std::span<uint8_t> bytes) { bytes[bytes.size() / 2] ^= 1; };
  auto damaged = world.get_all();
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().code(), Code::kChunkCorrupt);
  EXPECT_EQ(exit_code(damaged.error().code()), 9);
  EXPECT_NE(damaged.error().message().find("precious"), std::string::npos);
  EXPECT_NE(damaged.error().message().find("pack"), std::string::npos);
  EXPECT_TRUE(testing::read_local(world.out).empty());
  // Damage on the way only is cured by reading again.
  std::atomic<int> times{0};
  world.remote.corrupt = [&](const PackId&, uint64_t, std::span<uint8_t> bytes) {
    if (times++ == 0) bytes[bytes.size() / 2] ^= 1;
  };
  ASSERT_TRUE(world.get_all());
}

TEST(Get, NeverWritesThroughALink) {
  World world;
  ASSERT_EQ(::mkdir((world.src + "/d").c_str(), 0755), 0);
  testing::write_local(world.src + "/d/f", "from the volume");
  testing::write_local(world.src + "/g", "from the volume");
  world.put_all();
  std::string outside = world.folder / "outside";
  ASSERT_EQ(::mkdir(outside.c_str(), 0755), 0);
  testing::write_local(outside + "/g", "mine");
  ASSERT_EQ(::mkdir(world.out.c_str(), 0755), 0);
  ASSERT_EQ(::symlink(outside.c_str(), (world.out + "/d").c_str()), 0);
  auto trapped = world.get_all();
  ASSERT_FALSE(trapped);
  EXPECT_EQ(trapped.error().code(), Code::kPathTypeConflict);
  EXPECT_EQ(testing::read_local(outside).size(), 1u);
  // Nor through one in the place of the folder that was asked for.
  auto folder = world.run(world.options("d", world.out + "/"));
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().code(), Code::kPathTypeConflict);
  EXPECT_EQ(testing::read_local(outside).size(), 1u);
  // A link where a file goes is replaced, not followed.
  ASSERT_EQ(::unlink((world.out + "/d").c_str()), 0);
  ASSERT_EQ(::symlink((outside + "/g").c_str(), (world.out + "/g").c_str()), 0);
  ASSERT_TRUE(world.get_all());
  EXPECT_EQ(testing::read_local(outside)["g"].data, "mine");
  EXPECT_EQ(testing::read_local(world.out)["g"].data, "from the volume");
}

std::vector<uint8_t> listing_of(const std::vector<store::Entry>& entries) {
  store::BytesSink sink;
  store::ChangesetWriter writer(sink, store::ChangesetMode::kListing);
  for (const store::Entry& entry : entries) CAIRN_CHECK(writer.put_whole(entry).has_value());
  CAIRN_CHECK(writer.finish().has_value());
  return sink.take();
}

TEST(Get, RefusesHostileListings) {
  World world;
  testing::write_local(world.src + "/a", "a");
  world.put_all();
  auto file = [](const std::string& path) {
    store::Entry entry;
    entry.path = path;
    entry.mode = 0644;
    return entry;
  };
  store::Entry link = file("a");
  link.kind = store::EntryKind::kSymlink;
  link.target = "/etc";
  // Something below a link; and two valid pages that do not follow each other.
  world.remote.rewrite_listing = [&](std::vector<uint8_t>) { return listing_of({link, file("b")}); };
  EXPECT_TRUE(world.get_all());
  world.remote.rewrite_listing = [&](std::vector<uint8_t>) { return listing_of({file("b")}); };
  EXPECT_FALSE(world.run(world.options("a", world.out + "2")));
  world.remote.rewrite_listing = [&](std::vector<uint8_t> page) {
    page[page.size() / 2] ^= 0x40;
    return page;
  };
  EXPECT_FALSE(world.run(world.options("/", world.out + "3")));
  EXPECT_NE(::access((world.out + "3/a").c_str(), F_OK), 0);
}

TEST(Get, IncludesAndExcludes) {
  World world;
  for (const char* folder : {"/d", "/e"}) ASSERT_EQ(::mkdir((world.src + folder).c_str(), 0755), 0);
  for (const char* name : {"/a.txt", "/b.bin", "/d/c.txt", "/d/x.bin", "/e/y.bin"}) testing::write_local(world.src + name, name);
  world.put_all();
  auto files = [](const std::string& root) {
    std::vector<std::string> names;
    for (const auto& [path, entry] : testing::read_local(root)) {
      if (entry.type == os::FileType::kFile) names.push_back(path);
    }
    return names;
  };
  GetOptions only = world.options("/", world.out);
  only.include = {"*.txt"};
  ASSERT_TRUE(world.run(only));
  EXPECT_EQ(files(world.out), (std::vector<std::string>{"a.txt", "d/c.txt"}));
  GetOptions without = world.options("/", world.out + "2");
  without.exclude = {"e/", "*.txt"};
  ASSERT_TRUE(world.run(without));
  EXPECT_EQ(files(world.out + "2"), (std::vector<std::string>{"b.bin", "d/x.bin"}));
}

TEST(Get, CatWritesInOrderAndByRange) {
  World world;
  SeededRandom random(8);
  std::string data = testing::random_bytes(random, 70 << 20);
  testing::write_local(world.src + "/big", data);
  world.put_all();
  Progress progress;
  std::string got;
  ByteSink sink = [&](std::span<const uint8_t> bytes) -> Status {
    got.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return ok();
  };
  CatOptions options;
  options.path = "big";
  auto all = cat(world.remote, options, sink, progress, Deadline::never());
  ASSERT_TRUE(all) << all.error().to_string();
  EXPECT_TRUE(got == data);
  got.clear();
  options.offset = 33'333'333;
  options.length = 7'777'777;
  ASSERT_TRUE(cat(world.remote, options, sink, progress, Deadline::never()));
  EXPECT_TRUE(got == data.substr(33'333'333, 7'777'777));
  options.path = "absent";
  EXPECT_EQ(cat(world.remote, options, sink, progress, Deadline::never()).error().code(), Code::kPathNotFound);
}

TEST(Get, StripsSetuidAndKeepsHoles) {
  World world;
  testing::write_local(world.src + "/tool", "#!", 04755);
  std::string data(40 << 20, '\0');
  data[20 << 20] = 'x';
  testing::write_local(world.src + "/sparse", data);
  world.put_all();
  ASSERT_TRUE(world.get_all());
  struct stat st;
  ASSERT_EQ(::stat((world.out + "/tool").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0755u);
  ASSERT_EQ(::stat((world.out + "/sparse").c_str(), &st), 0);
  EXPECT_EQ(st.st_size, 40 << 20);
  EXPECT_LT(st.st_blocks * 512, 16 << 20);
  EXPECT_TRUE(testing::read_local(world.out)["sparse"].data == data);
}

}  // namespace
}  // namespace cairn::transfer
