#include "identity/identity.h"

#include <thread>

#include "catalog/events.h"
#include "identity/token_text.h"
#include "testing/catalog_fixture.h"

namespace cairn::identity {
namespace {

using catalog::Tx;

class IdentityTest : public testing::CatalogTest {
 protected:
  Identity& identity() {
    if (!identity_) identity_.emplace(db(), catalog_clock(), system_random());
    return *identity_;
  }
  Principal admin() {
    auto token = identity().bootstrap_token("ana", "admin-token", Scope::kFull, "");
    EXPECT_TRUE(token) << token.error().to_string();
    return who(*token);
  }
  Principal who(const std::string& token) {
    auto principal = identity().authenticate(token);
    EXPECT_TRUE(principal) << principal.error().to_string();
    return principal ? *principal : Principal{};
  }
  Code refused(std::string_view token) {
    auto principal = identity().authenticate(token);
    EXPECT_FALSE(principal);
    return principal ? Code::kInternal : principal.error().code();
  }
  // A token of a new member.
  Principal member(const std::string& name) {
    Principal root = admin();
    auto user = identity().create_user(root, name, Role::kMember);
    EXPECT_TRUE(user) << user.error().to_string();
    return Principal{user->id, name, Role::kMember, Scope::kFull, TokenId()};
  }

 private:
  std::optional<Identity> identity_;
};
CAIRN_INSTANTIATE_CATALOG(IdentityTest);

TEST_P(IdentityTest, BootstrapIsIdempotent) {
  auto first = identity().bootstrap_token("ana", "admin-token", Scope::kFull, "");
  ASSERT_TRUE(first) << first.error().to_string();
  Principal ana = who(*first);
  EXPECT_EQ(ana.name, "ana");
  EXPECT_TRUE(ana.is_admin());
  EXPECT_EQ(*identity().bootstrap_token("ana", "admin-token", Scope::kFull, *first), *first);
  // The file was lost: a new token, and the old one ends.
  auto second = identity().bootstrap_token("ana", "admin-token", Scope::kFull, "garbage");
  ASSERT_TRUE(second);
  EXPECT_NE(*second, *first);
  EXPECT_EQ(refused(*first), Code::kTokenInvalid);
  EXPECT_EQ(who(*second).user, ana.user);
  // The local node's token beside it.
  auto node = identity().bootstrap_token("ana", "node-token", Scope::kNode, "");
  ASSERT_TRUE(node);
  EXPECT_FALSE(who(*node).is_admin());
  EXPECT_EQ(*identity().bootstrap_token("ana", "node-token", Scope::kNode, *node), *node);
  EXPECT_TRUE(who(*second).is_admin());
  EXPECT_EQ(identity().bootstrap_token("Ana!", "x", Scope::kFull, "").error().code(), Code::kUsage);
}

TEST_P(IdentityTest, OnlyTheExactTokenIsAccepted) {
  Principal ana = admin();
  auto issued = identity().issue_token(ana, {"laptop", Scope::kFull, std::nullopt});
  ASSERT_TRUE(issued);
  EXPECT_EQ(who(issued->text).token, issued->id);
  EXPECT_EQ(refused(""), Code::kNotSignedIn);
  std::string wrong = issued->text;
  wrong.back() = wrong.back() == '0' ? '1' : '0';
  EXPECT_EQ(refused(wrong), Code::kTokenInvalid);
  EXPECT_EQ(refused(TokenText::random(system_random()).text()), Code::kTokenInvalid);
  EXPECT_EQ(refused(issued->text + "0"), Code::kTokenInvalid);
  EXPECT_EQ(refused(issued->text.substr(1)), Code::kTokenInvalid);
  EXPECT_EQ(refused(std::string(109, '\0')), Code::kTokenInvalid);
  auto stored = db().read([&](Tx& tx) { return catalog::find_token(tx, issued->id); });
  ASSERT_TRUE(stored && *stored);
  EXPECT_EQ((**stored).token.secret_hash.find(TokenText::parse(issued->text)->secret), std::string::npos);
  EXPECT_TRUE((**stored).token.last_used);
}

TEST_P(IdentityTest, TokensExpireAndAreRevoked) {
  Principal ana = admin();
  auto shortly = identity().issue_token(ana, {"ci", Scope::kRead, Duration(minutes(10))});
  ASSERT_TRUE(shortly);
  EXPECT_TRUE(who(shortly->text).scopes.allows(Scope::kRead));
  clock().advance(minutes(10));
  EXPECT_EQ(refused(shortly->text), Code::kTokenExpired);
  auto issued = identity().issue_token(ana, {"laptop", Scope::kFull, std::nullopt});
  ASSERT_TRUE(issued);
  ASSERT_TRUE(identity().revoke_token(ana, issued->id));
  EXPECT_EQ(refused(issued->text), Code::kTokenInvalid);
  Status again = identity().revoke_token(ana, issued->id);
  EXPECT_EQ(again.error().code(), Code::kObjectNotFound);
  EXPECT_NE(again.error().message().find("'laptop') was revoked already"), std::string::npos) << again.error().message();
  EXPECT_EQ(identity().revoke_token(ana, TokenId()).error().code(), Code::kObjectNotFound);
  EXPECT_EQ(identity().list_tokens(ana)->size(), 3u);
  for (Duration lifetime : {Duration(0), Duration(-1), Duration::max()}) {
    EXPECT_EQ(identity().issue_token(ana, {"x", Scope::kRead, lifetime}).error().code(), Code::kUsage);
  }
  EXPECT_EQ(identity().issue_token(ana, {"", Scope::kRead, std::nullopt}).error().code(), Code::kUsage);
  EXPECT_EQ(identity().issue_token(ana, {"x", Scopes(), std::nullopt}).error().code(), Code::kUsage);
}

TEST_P(IdentityTest, ATokenNeverGivesMoreThanItHas) {
  Principal bob = member("bob");
  EXPECT_EQ(identity().issue_token(bob, {"node", Scope::kNode, std::nullopt}).error().code(), Code::kNotAdmin);
  EXPECT_EQ(identity().create_user(bob, "eve", Role::kAdmin).error().code(), Code::kNotAdmin);
  EXPECT_EQ(identity().set_user_enabled(bob, "ana", false).error().code(), Code::kNotAdmin);
  auto reading = identity().issue_token(bob, {"ci", Scope::kRead, std::nullopt});
  ASSERT_TRUE(reading);
  Principal reader = who(reading->text);
  EXPECT_TRUE(reader.require(Scope::kRead));
  EXPECT_EQ(reader.require(Scope::kFull).error().code(), Code::kNotAllowed);
  EXPECT_EQ(identity().issue_token(reader, {"more", Scope::kFull, std::nullopt}).error().code(), Code::kNotAllowed);
  auto bobs = identity().issue_token(bob, {"laptop", Scope::kFull, std::nullopt});
  EXPECT_FALSE(identity().revoke_token(reader, bobs->id));
  EXPECT_TRUE(identity().revoke_token(reader, reader.token));
  auto node = identity().issue_token(admin(), {"n1", Scope::kNode, std::nullopt});
  ASSERT_TRUE(node);
  Principal agent = who(node->text);
  EXPECT_TRUE(agent.require(Scope::kNode));
  EXPECT_FALSE(agent.require(Scope::kRead));
  EXPECT_FALSE(agent.require_admin());
}

TEST_P(IdentityTest, DisabledUsersAreOutAtOnceAndTheLastAdminStays) {
  Principal bob = member("bob");
  Principal ana = admin();
  auto token = identity().issue_token(bob, {"laptop", Scope::kFull, std::nullopt});
  ASSERT_TRUE(identity().set_user_enabled(ana, "bob", false));
  EXPECT_EQ(refused(token->text), Code::kNotAllowed);
  ASSERT_TRUE(identity().set_user_enabled(ana, "bob", true));
  EXPECT_EQ(who(token->text).name, "bob");
  EXPECT_EQ(identity().set_user_enabled(ana, "ana", false).error().code(), Code::kNotAllowed);
  EXPECT_EQ(identity().set_user_enabled(ana, "nobody", false).error().code(), Code::kRequestInvalid);
  EXPECT_EQ(identity().create_user(ana, "bob", Role::kMember).error().code(), Code::kRequestInvalid);
}

TEST_P(IdentityTest, WhatHappenedIsInTheTrailWithoutSecrets) {
  Principal ana = admin();
  auto issued = identity().issue_token(ana, {"laptop", Scope::kFull, std::nullopt});
  ASSERT_TRUE(identity().revoke_token(ana, issued->id));
  auto events = db().read([&](Tx& tx) { return catalog::list_events(tx, {}, 10); });
  ASSERT_TRUE(events);
  ASSERT_EQ(events->size(), 3u);
  EXPECT_EQ(events->at(0).action, "token.revoke");
  EXPECT_EQ(events->at(1).action, "token.issue");
  EXPECT_EQ(events->at(1).actor_name, "ana");
  EXPECT_EQ(events->at(2).action, "token.bootstrap");
  std::string secret = TokenText::parse(issued->text)->secret;
  for (const catalog::Event& event : *events) {
    EXPECT_EQ((event.detail + event.object_name).find(secret), std::string::npos);
  }
}

TEST(Scopes, TextRoundTripsAndNonsenseIsRefused) {
  EXPECT_EQ(Scopes::from_text("node read")->to_text(), "node read");
  EXPECT_EQ((Scopes(Scope::kRead) | Scope::kFull).to_text(), "full read");
  for (const char* bad : {"", " ", "root", "full full", "full  read", "Full"}) EXPECT_FALSE(Scopes::from_text(bad)) << bad;
}

TEST(TokenText, HasOneForm) {
  SeededRandom random(7);
  TokenText token = TokenText::random(random);
  std::string text = token.text();
  EXPECT_EQ(text.size(), 103u);
  EXPECT_EQ(TokenText::parse(text)->id, token.id);
  EXPECT_TRUE(TokenText::parse(text)->matches(token.secret_hash()));
  EXPECT_FALSE(token.matches(""));
  for (size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = 'G';
    EXPECT_FALSE(TokenText::parse(changed)) << i;
  }
  EXPECT_FALSE(TokenText::parse(""));
}

TEST(BearerToken, IsTakenFromTheHeader) {
  EXPECT_EQ(bearer_token("Bearer abc"), "abc");
  EXPECT_EQ(bearer_token("bearer  abc "), "abc");
  EXPECT_FALSE(bearer_token("Basic abc"));
  EXPECT_FALSE(bearer_token("Bearer"));
  EXPECT_FALSE(bearer_token(""));
}

}  // namespace
}  // namespace cairn::identity
