#include "server/signed_urls.h"

#include <gtest/gtest.h>

namespace cairn::server {
namespace {

class SignedUrlsTest : public testing::Test {
 protected:
  SignedUrlsTest() : urls_(codec::Bytes(SignedUrls::kSecretBytes, 7), clock_) {}

  // The path and query of a URL apart, as a request brings them.
  Result<SignedObject> check(std::string_view method, const std::string& url) {
    size_t mark = url.find('?');
    std::string query = mark == std::string::npos ? "" : url.substr(mark + 1);
    return urls_.check(method, url.substr(0, mark), query);
  }
  static std::string replaced(std::string text, const std::string& from, const std::string& to) {
    size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  }

  ManualClock clock_;
  SignedUrls urls_;
  object::ObjectKey key_ = object::ObjectKey::of("s/0011/p/2233");
};

TEST_F(SignedUrlsTest, GrantsWhatWasSigned) {
  auto put = check("PUT", urls_.put(key_, 1234, 0xdeadbeef).text);
  ASSERT_TRUE(put) << put.error().to_string();
  EXPECT_EQ(put->key, key_);
  EXPECT_EQ(put->size_bytes, 1234u);
  EXPECT_EQ(put->crc32c, 0xdeadbeefu);
  EXPECT_TRUE(check("GET", urls_.get(key_, 1234).text));
}

TEST_F(SignedUrlsTest, EveryPartIsSigned) {
  std::string url = urls_.put(key_, 1234, 0xdeadbeef).text;
  EXPECT_FALSE(check("GET", url));
  EXPECT_FALSE(check("DELETE", url));
  EXPECT_FALSE(check("PUT", urls_.get(key_, 1234).text));
  EXPECT_FALSE(check("PUT", replaced(url, "p/2233", "p/2234")));
  EXPECT_FALSE(check("PUT", replaced(url, "s/0011", "s/0012")));
  EXPECT_FALSE(check("PUT", replaced(url, "length=1234", "length=1235")));
  EXPECT_FALSE(check("PUT", replaced(url, "length=1234", "length=01234") + "0"));
  EXPECT_FALSE(check("PUT", replaced(url, "crc32c=deadbeef", "crc32c=deadbeee")));
  EXPECT_FALSE(check("PUT", replaced(url, "expires=1", "expires=2")));
  std::string other = url;
  other.back() = other.back() == '0' ? '1' : '0';
  EXPECT_FALSE(check("PUT", other));
}

TEST_F(SignedUrlsTest, NothingElseIsAccepted) {
  std::string url = urls_.put(key_, 1234, 0xdeadbeef).text;
  EXPECT_FALSE(check("PUT", url.substr(0, url.find('?'))));
  EXPECT_FALSE(check("PUT", url.substr(0, url.find("&signature="))));
  EXPECT_FALSE(check("PUT", url + "&length=1234"));
  EXPECT_FALSE(check("PUT", url + "&more=1"));
  EXPECT_FALSE(check("PUT", url.substr(0, url.size() - 1)));
  EXPECT_FALSE(check("PUT", replaced(url, "/store/s/0011/", "/store/s/0011/../0011/")));
  EXPECT_FALSE(check("PUT", replaced(url, "p/2233", "p%2f2233")));
  EXPECT_FALSE(check("PUT", replaced(url, "/store/", "/other/")));
  EXPECT_FALSE(check("PUT", replaced(url, "crc32c=deadbeef", "crc32c=DEADBEEF")));
  EXPECT_FALSE(check("PUT", "/store/?length=99999999999999999999&crc32c=0&expires=-1&signature="));
}

TEST_F(SignedUrlsTest, ExpiresAfterHalfAnHourAtMost) {
  SignedUrls::Url url = urls_.get(key_, 1);
  EXPECT_LE(url.expires_at, clock_.now() + Duration(minutes(30)));
  clock_.advance(minutes(29));
  EXPECT_TRUE(check("GET", url.text));
  clock_.advance(minutes(1));
  auto late = check("GET", url.text);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code(), Code::kUrlInvalid);
  EXPECT_NE(late.error().message().find("expired"), std::string::npos);
}

TEST_F(SignedUrlsTest, AnotherKeySignsOtherUrls) {
  SignedUrls others(codec::Bytes(SignedUrls::kSecretBytes, 8), clock_);
  EXPECT_FALSE(check("GET", others.get(key_, 1).text));
}

}  // namespace
}  // namespace cairn::server
