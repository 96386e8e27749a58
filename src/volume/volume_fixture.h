// What the tests of this module stand on: a fresh catalog (both engines), a store in memory, a clock that only moves
// when told.
#pragma once

#include <memory>
#include <string>

#include "catalog/snapshots.h"
#include "catalog/volumes.h"
#include "object/memory_store.h"
#include "testing/catalog_fixture.h"
#include "testing/status_macros.h"
#include "testing/storage_client.h"
#include "volume/gc.h"
#include "volume/leases.h"
#include "volume/publish.h"
#include "volume/reads.h"
#include "volume/uploads.h"
#include "volume/volumes.h"

namespace cairn::volume {

class VolumeTest : public testing::CatalogTest {
 protected:
  void SetUp() override {
    CatalogTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    alice_ = Actor{UserId::random(random()), "alice"};
    bob_ = Actor{UserId::random(random()), "bob"};
    context_ = std::make_unique<Context>(db(), store_, clock(), random(), settings());
    client_ = std::make_unique<testing::StorageClient>(*context_, store_);
  }
  void TearDown() override {
    client_.reset();
    context_.reset();
    CatalogTest::TearDown();
  }

  virtual Settings settings() { return {}; }
  // Hours and days at once: as if servers had stamped all the time.
  void run_time(Duration duration) {
    if (duration <= minutes(2)) return CatalogTest::run_time(duration);
    clock().advance(duration);
    ASSERT_OK(db().transact([&](catalog::Tx& tx) {
      return tx.exec("update catalog_clock set now_us = now_us + ?1, raw_us = raw_us + ?1, lease_us = lease_us + ?1,"
                     " removal_us = removal_us + ?1",
                     {int64_t{duration.count()}});
    }));
    ASSERT_OK(catalog_clock().stamp(db()));
  }
  Context& context() { return *context_; }
  testing::StorageClient& client() { return *client_; }
  Deadline soon() { return Deadline::after(minutes(1), clock()); }

  VolumeInfo make_volume(const std::string& name, std::optional<int64_t> size = {}) {
    auto made = Volumes(context()).create(alice_, name, size);
    EXPECT_TRUE(made) << made.error().to_string();
    return made ? *made : VolumeInfo();
  }
  LeaseRequest request_for(VolumeId volume, HolderKind kind = HolderKind::kUpload) {
    LeaseRequest request;
    request.volume = volume;
    request.kind = kind;
    request.holder = kind == HolderKind::kRun ? "run 1/1" : "put from laptop";
    request.user = alice_.user;
    request.user_name = alice_.name;
    request.source = kind == HolderKind::kUpload ? "laptop:/data" : "";
    return request;
  }
  // Sends files and returns a publication that only has to be published.
  Result<PublishRequest> prepare(const OpenUpload& upload, const testing::Contents& files,
                                 const std::set<std::string, store::PathLess>& deletes = {}) {
    std::vector<std::string> texts;
    for (const auto& [path, text] : files) texts.push_back(text);
    CAIRN_TRY(auto chunks, client().send(upload, texts));
    testing::Changes changes;
    changes.deletes = deletes;
    for (const auto& [path, text] : files) changes.puts[path] = {text, chunks.at(text)};
    return request_of(upload, changes);
  }
  Result<PublishRequest> request_of(const OpenUpload& upload, const testing::Changes& changes) {
    PublishRequest request;
    request.request = RequestId::random(random());
    request.upload = upload.id;
    request.secret = upload.lease.secret;
    CAIRN_TRY(request.changeset, client().send_changeset(upload, changes));
    return request;
  }

  object::MemoryStore store_;
  std::unique_ptr<Context> context_;
  std::unique_ptr<testing::StorageClient> client_;
  Actor alice_;
  Actor bob_;
};

}  // namespace cairn::volume
