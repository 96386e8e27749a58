// The directory store under power loss at every operation, full disks, and leftovers of a crash.
#include "object/directory_store.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "base/log.h"
#include "os/memory_file_system.h"
#include "testing/temporary_folder.h"

namespace cairn::object {
namespace {

const Deadline kNever = Deadline::never();

std::string content_of(ObjectStore& store, const std::string& key) {
  auto bytes = store.get_all(ObjectKey::of(key), 1 << 20, kNever);
  if (bytes) return std::string(bytes->begin(), bytes->end());
  return bytes.error().code() == Code::kObjectNotFound ? "absent" : "<" + bytes.error().to_string() + ">";
}

// What the run before the crash was told.
struct Told {
  std::vector<std::string> stored;
  bool removed = false;
};

Told use_store(os::FileSystem& files) {
  Told told;
  SeededRandom random(1);
  auto store = DirectoryStore::open_root(files, "/srv/store", random);
  if (!store) return told;
  for (const char* key : {"s/aa/p/01", "s/aa/p/02", "s/bb/p/01"}) {
    if ((*store)->put_if_absent(ObjectKey::of(key), codec::as_bytes("content of object " + std::string(key)), kNever)) {
      told.stored.push_back(key);
    }
  }
  told.removed = (*store)->remove(ObjectKey::of("s/aa/p/01"), kNever).has_value();
  return told;
}

TEST(DirectoryStore, PowerLossAtEveryOperationLeavesObjectsWholeOrAbsent) {
  set_log_level(LogLevel::kWarning);  // every restart would tell what it cleaned
  uint64_t cuts = 0;
  for (uint64_t at = 0;; ++at) {
    bool was_cut = false;
    for (uint64_t seed = 0; seed < 16; ++seed) {
      SCOPED_TRACE("power off at operation " + std::to_string(at) + ", seed " + std::to_string(seed));
      os::MemoryFileSystem files;
      files.power_off_at(at);
      Told told = use_store(files);
      was_cut = files.power_is_off();
      SeededRandom random(seed);
      files.crash(seed == 0 ? nullptr : &random);

      SeededRandom names(2);
      auto store = DirectoryStore::open_root(files, "/srv/store", names);
      ASSERT_TRUE(store) << store.error().to_string();
      for (const char* key : {"s/aa/p/01", "s/aa/p/02", "s/bb/p/01"}) {
        std::string content = content_of(**store, key);
        bool was_stored = std::find(told.stored.begin(), told.stored.end(), key) != told.stored.end();
        bool may_be_removed = std::string(key) == "s/aa/p/01";
        if (content == "absent") {
          EXPECT_TRUE(!was_stored || may_be_removed) << key << " was stored and is gone";
        } else {
          EXPECT_EQ(content, "content of object " + std::string(key));
        }
      }
      if (told.removed) {
        EXPECT_EQ(content_of(**store, "s/aa/p/01"), "absent");
      }
      EXPECT_TRUE(files.list("/srv/store/tmp")->empty());
      // Whatever is missing can be put again.
      for (const char* key : {"s/aa/p/02", "s/bb/p/01"}) {
        Status put = (*store)->put_if_absent(ObjectKey::of(key),
                                             codec::as_bytes("content of object " + std::string(key)), kNever);
        EXPECT_TRUE(put || put.error().code() == Code::kObjectExists);
      }
    }
    if (!was_cut) break;
    ++cuts;
  }
  EXPECT_GT(cuts, 30u);
}

TEST(DirectoryStore, AnAnswerOfExistsIsDurableToo) {
  os::MemoryFileSystem files;
  SeededRandom random(1);
  auto store = *DirectoryStore::open_root(files, "/store", random);
  ASSERT_TRUE(store->put_if_absent(ObjectKey::of("d/first"), {}, kNever));
  auto early = *store->create(ObjectKey::of("d/a"), 1, kNever);
  auto late = *store->create(ObjectKey::of("d/a"), 1, kNever);
  ASSERT_TRUE(early->append(codec::as_bytes("1")));
  ASSERT_TRUE(late->append(codec::as_bytes("2")));
  // The first one links its name and then fails to sync the folder: operations are sync, close, link, sync folder.
  files.fail_operation(3, Error(Code::kIoError, "injected"));
  EXPECT_EQ(early->commit().error().code(), Code::kIoError);
  EXPECT_EQ(late->commit().error().code(), Code::kObjectExists);
  files.crash();
  auto again = *DirectoryStore::open_root(files, "/store", random);
  EXPECT_EQ(content_of(*again, "d/a"), "1");
}

TEST(DirectoryStore, WhatIsSeenAfterAFailedPutIsDurable) {
  for (uint64_t round = 0; round < 60; ++round) {
    uint64_t at = round / 2;
    bool by_head = round % 2;
    SCOPED_TRACE("operation " + std::to_string(at) + " fails once, seen by " + (by_head ? "head" : "put"));
    os::MemoryFileSystem files;
    SeededRandom random(1);
    auto store = *DirectoryStore::open_root(files, "/store", random);
    files.fail_operation(at, Error(Code::kIoError, "injected"));
    static_cast<void>(store->put_if_absent(ObjectKey::of("new/folders/a"), codec::as_bytes("1"), kNever).has_value());
    ObjectKey key = ObjectKey::of("new/folders/a");
    bool told;
    if (by_head) {
      told = store->head(key, kNever).has_value();
    } else {
      Status again = store->put_if_absent(key, codec::as_bytes("1"), kNever);
      told = again || again.error().code() == Code::kObjectExists;
    }
    if (!told) continue;
    files.crash();
    SeededRandom names(2);
    auto after = *DirectoryStore::open_root(files, "/store", names);
    EXPECT_EQ(content_of(*after, "new/folders/a"), "1");
  }
}

TEST(DirectoryStore, AFullDiskNamesTheStoreAndLeavesNothing) {
  os::MemoryFileSystem files;
  SeededRandom random(1);
  auto store = *DirectoryStore::open_root(files, "/store", random);
  files.set_capacity(100);
  ASSERT_TRUE(store->put_if_absent(ObjectKey::of("a"), Bytes(60), kNever));
  Status full = store->put_if_absent(ObjectKey::of("b"), Bytes(60), kNever);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code(), Code::kNoSpaceLeft);
  EXPECT_NE(full.error().message().find("/store"), std::string::npos);
  EXPECT_FALSE(full.error().hint().empty());
  EXPECT_EQ(files.used_bytes(), 60u);
  EXPECT_TRUE(files.list("/store/tmp")->empty());
  EXPECT_TRUE(store->put_if_absent(ObjectKey::of("b"), Bytes(40), kNever));
}

TEST(DirectoryStore, RemovesWhatUnfinishedPutsLeft) {
  testing::TemporaryFolder folder;
  os::FileSystem& files = os::posix_file_system();
  ASSERT_TRUE(files.make_directories(folder / "store/tmp", 0700));
  for (int i = 0; i < 2500; ++i) {
    ASSERT_TRUE(files.create_exclusive(folder / ("store/tmp/" + std::to_string(i)), 0600));
  }
  auto store = DirectoryStore::open_root(files, folder / "store");
  ASSERT_TRUE(store);
  EXPECT_TRUE(files.list(folder / "store/tmp")->empty());
  EXPECT_TRUE((*store)->list("", "", 10, kNever)->objects.empty());
}

TEST(DirectoryStore, ReadersHaveADescriptorToSendFrom) {
  testing::TemporaryFolder folder;
  auto store = *DirectoryStore::open_root(os::posix_file_system(), folder / "store");
  ASSERT_TRUE(store->put_if_absent(ObjectKey::of("a"), codec::as_bytes("sendfile"), kNever));
  auto reader = *store->open(ObjectKey::of("a"), kNever);
  std::string text(8, '\0');
  EXPECT_EQ(*os::read_full_at(reader->native_fd(), 0, {reinterpret_cast<uint8_t*>(text.data()), 8}, "a"), 8u);
  EXPECT_EQ(text, "sendfile");
  EXPECT_EQ(os::posix_file_system().stat(folder / "store/a")->mode, 0600u);
}

TEST(DirectoryStore, AStoreThatIsGoneIsNotAnAbsentObject) {
  os::MemoryFileSystem files;
  SeededRandom random(1);
  auto store = *DirectoryStore::open_root(files, "/store", random);
  ASSERT_TRUE(files.remove_directory("/store/tmp"));
  EXPECT_EQ(store->put_if_absent(ObjectKey::of("a"), {}, kNever).error().code(), Code::kIoError);
}

}  // namespace
}  // namespace cairn::object
