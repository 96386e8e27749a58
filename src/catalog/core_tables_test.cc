// Requests, events, tasks, numbers, users and tokens.
#include <set>
#include <thread>

#include "catalog/events.h"
#include "catalog/meta.h"
#include "catalog/requests.h"
#include "catalog/tasks.h"
#include "catalog/tokens.h"
#include "catalog/users.h"
#include "testing/catalog_fixture.h"

namespace cairn::catalog {
namespace {

class CoreTablesTest : public testing::CatalogTest {
 protected:
  template <class Fn>
  auto in_tx(Fn fn) {
    auto result = db().transact(fn);
    EXPECT_TRUE(result) << result.error().to_string();
    if constexpr (!std::is_same_v<decltype(result), Status>) return result;
  }
  RequestKey key(std::string body = "b1") {
    return RequestKey{UserId::random(random()), RequestId::random(random()), "POST /v1/volumes", std::move(body)};
  }
  UserRow user(std::string name, std::string role = "member") {
    UserRow row{UserId::random(random()), std::move(name), std::move(role), "active", clock().now()};
    EXPECT_TRUE(*in_tx([&](Tx& tx) { return insert_user(tx, row); }));
    return row;
  }
};
CAIRN_INSTANTIATE_CATALOG(CoreTablesTest);

TEST_P(CoreTablesTest, ARequestIsAnsweredTheSameAgain) {
  RequestKey first = key();
  EXPECT_FALSE(*in_tx([&](Tx& tx) { return find_request(tx, first); }));
  in_tx([&](Tx& tx) { return store_request(tx, first, {201, "{\"a\":1}"}, clock().now()); });
  auto found = in_tx([&](Tx& tx) { return find_request(tx, first); });
  ASSERT_TRUE(*found);
  EXPECT_EQ((**found).status, 201);
  EXPECT_EQ((**found).response, "{\"a\":1}");

  RequestKey other_body = first;
  other_body.body_hash = "b2";
  RequestKey other_route = first;
  other_route.route = "DELETE /v1/volumes/x";
  for (const RequestKey& reused : {other_body, other_route}) {
    auto refused = db().transact([&](Tx& tx) { return find_request(tx, reused); });
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Code::kRequestIdReused);
  }
  RequestKey other_user = first;
  other_user.user = UserId::random(random());
  EXPECT_FALSE(*in_tx([&](Tx& tx) { return find_request(tx, other_user); }));
}

TEST_P(CoreTablesTest, OneOfManyEqualRequestsDoesTheWork) {
  RequestKey one = key();
  std::atomic<int> worked{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&] {
      bool mine = false;
      Status status = db().transact([&](Tx& tx) -> Status {
        mine = false;
        CAIRN_TRY(std::optional<StoredResponse> done, find_request(tx, one));
        if (done) return ok();
        mine = true;
        return store_request(tx, one, {200, "{}"}, Time{1});
      });
      EXPECT_TRUE(status) << status.error().to_string();
      if (status && mine) ++worked;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(worked.load(), 1);
}

TEST_P(CoreTablesTest, OldRequestsArePrunedInBoundedSteps) {
  for (int i = 0; i < 10; ++i) in_tx([&](Tx& tx) { return store_request(tx, key(), {200, "{}"}, clock().now()); });
  clock().advance(kRequestsKept);
  in_tx([&](Tx& tx) { return store_request(tx, key(), {200, "{}"}, clock().now()); });
  auto prune = [&](Tx& tx) { return prune_requests(tx, clock().now() - kRequestsKept + Duration(1), 6); };
  EXPECT_EQ(*in_tx(prune), 6);
  EXPECT_EQ(*in_tx(prune), 4);
  EXPECT_EQ(*in_tx(prune), 0);
  auto large = db().transact([&](Tx& tx) {
    return store_request(tx, key(), {200, std::string(kResponseBytesMax + 1, 'x')}, clock().now());
  });
  EXPECT_EQ(large.error().code(), Code::kLimitExceeded);
}

TEST_P(CoreTablesTest, EventsListNewestFirstInPages) {
  for (int i = 0; i < 5; ++i) {
    Event event;
    event.at = clock().now();
    if (i % 2 == 0) event.actor = UserId::random(random());
    event.actor_name = "ana";
    event.action = "volume.create";
    event.object_kind = "volume";
    event.object_name = i < 3 ? "research" : "other";
    event.detail = i == 4 ? std::string(kEventDetailBytesMax - 1, 'd') + "€" : "d";
    in_tx([&](Tx& tx) { return add_event(tx, event); });
  }
  auto all = in_tx([&](Tx& tx) { return list_events(tx, {}, 100); });
  ASSERT_EQ(all->size(), 5u);
  EXPECT_GT(all->at(0).seq, all->at(1).seq);
  EXPECT_TRUE(all->at(0).actor);
  EXPECT_FALSE(all->at(1).actor);
  EXPECT_EQ(all->at(0).detail.size(), kEventDetailBytesMax - 1);
  EventFilter filter;
  filter.object_kind = "volume";
  filter.object_name = "research";
  auto page = in_tx([&](Tx& tx) { return list_events(tx, filter, 2); });
  ASSERT_EQ(page->size(), 2u);
  filter.before_seq = page->back().seq;
  page = in_tx([&](Tx& tx) { return list_events(tx, filter, 2); });
  EXPECT_EQ(page->size(), 1u);
}

TEST_P(CoreTablesTest, ATaskHasOneHolderAndRisingTickets) {
  auto take = [&](const char* holder) {
    return *in_tx([&](Tx& tx) { return take_task(tx, "gc", holder, minutes(1)); });
  };
  auto hold = [&](const TaskLease& lease) { return db().transact([&](Tx& tx) { return hold_task(tx, lease, minutes(1)); }); };
  auto first = take("a");
  ASSERT_TRUE(first);
  EXPECT_EQ(first->ticket, 1);
  EXPECT_FALSE(take("b"));
  run_time(seconds(50));
  EXPECT_TRUE(hold(*first));
  clock().advance(hours(5));  // an outage takes nothing away
  EXPECT_TRUE(catalog_clock().stamp(db()));
  EXPECT_FALSE(take("b"));
  run_time(minutes(1));
  auto second = take("b");
  ASSERT_TRUE(second);
  EXPECT_EQ(second->ticket, 2);
  EXPECT_EQ(hold(*first).error().code(), Code::kLeaseLost);
  in_tx([&](Tx& tx) { return release_task(tx, *first); });
  EXPECT_FALSE(take("a"));
  in_tx([&](Tx& tx) { return release_task(tx, *second); });
  EXPECT_EQ(take("a")->ticket, 3);
  EXPECT_EQ(take("a")->ticket, 4);
}

TEST_P(CoreTablesTest, NumbersAndTheEpoch) {
  EXPECT_EQ(*in_tx([&](Tx& tx) { return epoch(tx); }), 1);
  in_tx([&](Tx& tx) { return raise_epoch(tx, 1, 5); });
  EXPECT_EQ(db().transact([&](Tx& tx) { return raise_epoch(tx, 1, 6); }).error().code(), Code::kBusy);
  EXPECT_EQ(*in_tx([&](Tx& tx) { return epoch(tx); }), 5);
  EXPECT_FALSE(*in_tx([&](Tx& tx) { return get_number(tx, "gc_ticket"); }));
  std::mutex mutex;
  std::set<int64_t> numbers;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 10; ++k) {
        auto number = in_tx([&](Tx& tx) { return next_number(tx, "gc_ticket"); });
        std::lock_guard lock(mutex);
        EXPECT_TRUE(numbers.insert(*number).second);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(*numbers.rbegin(), 40);
  in_tx([&](Tx& tx) { return set_number(tx, "x", INT64_MIN); });
  EXPECT_EQ(**in_tx([&](Tx& tx) { return get_number(tx, "x"); }), INT64_MIN);
}

TEST_P(CoreTablesTest, UsersHaveUniqueNamesAndOneAdminStays) {
  UserRow ana = user("ana", "admin");
  UserRow bob = user("bob", "admin");
  EXPECT_FALSE(*in_tx([&](Tx& tx) { return insert_user(tx, {UserId::random(random()), "ana", "member", "active", Time{1}}); }));
  EXPECT_EQ((**in_tx([&](Tx& tx) { return find_user_by_name(tx, "bob"); })).id, bob.id);
  EXPECT_FALSE(*in_tx([&](Tx& tx) { return find_user(tx, UserId::random(random())); }));
  auto page = in_tx([&](Tx& tx) { return list_users(tx, "ana", 10); });
  ASSERT_EQ(page->size(), 1u);
  EXPECT_TRUE(*in_tx([&](Tx& tx) { return set_user_state(tx, ana.id, "disabled"); }));
  EXPECT_FALSE(*in_tx([&](Tx& tx) { return set_user_state(tx, bob.id, "disabled"); }));
  EXPECT_TRUE(*in_tx([&](Tx& tx) { return set_user_state(tx, ana.id, "active"); }));
  EXPECT_FALSE(db().transact([&](Tx& tx) { return insert_user(tx, {UserId::random(random()), "x", "owner", "active", Time{1}}); }));
}

TEST_P(CoreTablesTest, TokensAreFoundWithTheirUserAndRevokedOnce) {
  UserRow ana = user("ana");
  UserRow bob = user("bob");
  TokenRow token{TokenId::random(random()), ana.id, "laptop", std::string(64, 'a'), "full", Time{5}, Time{9}, {}, {}};
  in_tx([&](Tx& tx) { return insert_token(tx, token); });
  auto found = *in_tx([&](Tx& tx) { return find_token(tx, token.id); });
  ASSERT_TRUE(found);
  EXPECT_EQ(found->user.name, "ana");
  EXPECT_EQ(found->token.expires, Time{9});
  EXPECT_FALSE(found->token.revoked);
  in_tx([&](Tx& tx) { return touch_token(tx, token.id, Time{100}, Duration(50)); });
  in_tx([&](Tx& tx) { return touch_token(tx, token.id, Time{120}, Duration(50)); });
  EXPECT_EQ((**in_tx([&](Tx& tx) { return find_token(tx, token.id); })).token.last_used, Time{100});
  EXPECT_FALSE(*in_tx([&](Tx& tx) { return revoke_token(tx, bob.id, token.id, Time{7}); }));
  EXPECT_TRUE(*in_tx([&](Tx& tx) { return revoke_token(tx, ana.id, token.id, Time{7}); }));
  EXPECT_FALSE(*in_tx([&](Tx& tx) { return revoke_token(tx, ana.id, token.id, Time{8}); }));
  EXPECT_EQ(in_tx([&](Tx& tx) { return list_tokens(tx, ana.id); })->at(0).revoked, Time{7});
  EXPECT_FALSE(db().transact([&](Tx& tx) {
    return insert_token(tx, {TokenId::random(random()), UserId::random(random()), "x", "h", "full", Time{1}, {}, {}, {}});
  }));
}

}  // namespace
}  // namespace cairn::catalog
