#include "volume/names.h"

#include <gtest/gtest.h>

#include "volume/history.h"

namespace cairn::volume {
namespace {

TEST(Names, Rules) {
  for (const char* good : {"a", "7", "research", "a-b", "x-1-y", "0123456789012345678901234567890123456789"}) {
    EXPECT_TRUE(check_volume_name(good)) << good;
  }
  for (const char* bad :
       {"", "-a", "a-", "A", "a_b", "a.b", "a/b", "ü", "~a", "01234567890123456789012345678901234567890"}) {
    Status status = check_volume_name(bad);
    ASSERT_FALSE(status) << bad;
    EXPECT_EQ(status.error().code(), Code::kVolumeNameInvalid);
    EXPECT_FALSE(status.error().hint().empty());
  }
}

TEST(History, Policies) {
  for (const char* good : {"7d", "30d", "20", "1", "off"}) EXPECT_EQ(HistoryPolicy::parse(good)->to_string(), good);
  for (const char* bad : {"", "d", "0", "0d", "-1", "7 d", "7h", "99999d", "on", "1.5d"})
    EXPECT_FALSE(HistoryPolicy::parse(bad)) << bad;
}

}  // namespace
}  // namespace cairn::volume
