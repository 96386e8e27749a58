// The object store contract on every store and decorator, and the rules of keys.
#include "object/object_store.h"

#include <gtest/gtest.h>

#include "object/directory_store.h"
#include "object/memory_store.h"
#include "object/retrying_store.h"
#include "os/memory_file_system.h"
#include "testing/faulty_object_store.h"
#include "testing/object_store_contract.h"
#include "testing/temporary_folder.h"

namespace cairn::testing {
namespace {

struct MemoryFixture final : ObjectStoreFixture {
  object::ObjectStore& store() override { return memory; }
  object::MemoryStore memory;
};

struct DirectoryFixture final : ObjectStoreFixture {
  DirectoryFixture() : directory(*object::DirectoryStore::open_root(os::posix_file_system(), temporary / "store")) {}
  object::ObjectStore& store() override { return *directory; }
  TemporaryFolder temporary;
  std::unique_ptr<object::DirectoryStore> directory;
};

struct MemoryDirectoryFixture final : ObjectStoreFixture {
  MemoryDirectoryFixture() : directory(*object::DirectoryStore::open_root(files, "/data/store/")) {}
  object::ObjectStore& store() override { return *directory; }
  os::MemoryFileSystem files;
  std::unique_ptr<object::DirectoryStore> directory;
};

struct RetryingFixture final : ObjectStoreFixture {
  static FaultPlan plan() {
    FaultPlan plan;
    plan.seed = 20;
    plan.fail = 150;
    plan.applied_but_failed = 150;
    plan.short_read = 100;
    plan.delay = 20;
    return plan;
  }
  RetryingFixture() : faulty(memory, clock, plan()), retrying(faulty, clock, system_random()) {}
  object::ObjectStore& store() override { return retrying; }
  object::MemoryStore memory;
  ManualClock clock;
  FaultyObjectStore faulty;
  object::RetryingStore retrying;
};

INSTANTIATE_TEST_SUITE_P(
    All, ObjectStoreContract,
    ::testing::Values(ObjectStoreCase{"memory", [] { return std::make_unique<MemoryFixture>(); }},
                      ObjectStoreCase{"directory", [] { return std::make_unique<DirectoryFixture>(); }},
                      ObjectStoreCase{"directory_in_memory", [] { return std::make_unique<MemoryDirectoryFixture>(); }},
                      ObjectStoreCase{"retrying_faulty_memory", [] { return std::make_unique<RetryingFixture>(); }}),
    [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace cairn::testing

namespace cairn::object {
namespace {

TEST(ObjectKey, Rules) {
  for (const char* good : {"a", "s/0a/p/ff", "a.b_c-d/..x", "0", "..."}) EXPECT_TRUE(ObjectKey::is_valid(good)) << good;
  for (const char* bad :
       {"", "/a", "a/", "a//b", ".", "..", "a/../b", "a/.", "A", "a b", "a\\b", "\xc3\xa4", "a\n", "tmp", "tmp/a"}) {
    EXPECT_FALSE(ObjectKey::is_valid(bad)) << bad;
  }
  std::string longest = std::string(255, 'a') + "/" + std::string(256 - 2, 'c') + "/d";
  EXPECT_EQ(longest.size(), 512u);
  EXPECT_TRUE(ObjectKey::is_valid(longest));
  EXPECT_FALSE(ObjectKey::is_valid(longest + "d"));
  EXPECT_FALSE(ObjectKey::is_valid(std::string(256, 'a')));
  EXPECT_EQ(ObjectKey::parse("../x").error().code(), Code::kRequestInvalid);
  EXPECT_LT(ObjectKey::of("a-b"), ObjectKey::of("a/b"));
}

TEST(MemoryStore, DamageShows) {
  MemoryStore store;
  ASSERT_TRUE(store.put_if_absent(ObjectKey::of("a"), codec::as_bytes("xyz"), Deadline::never()));
  store.damage(ObjectKey::of("a"), 1);
  EXPECT_NE(codec::as_text(*store.get_all(ObjectKey::of("a"), 10, Deadline::never())), "xyz");
  EXPECT_EQ(store.object_count(), 1u);
  EXPECT_EQ(store.total_bytes(), 3u);
}

}  // namespace
}  // namespace cairn::object
