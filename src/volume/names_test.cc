#include "volume/names.h"

#include <gtest/gtest.h>

#include "volume/history.h"
#include "volume/sizes.h"

namespace cairn::volume {
namespace {

constexpr int64_t kGi = int64_t{1} << 30;

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

TEST(Sizes, Parse) {
  EXPECT_EQ(*parse_size("500Gi"), 500 * kGi);
  EXPECT_EQ(*parse_size("1.5Ti"), 1536 * kGi);
  EXPECT_EQ(*parse_size("100G"), 100'000'000'000);
  EXPECT_EQ(*parse_size("1e12"), 1'000'000'000'000);
  EXPECT_EQ(*parse_size("1E"), 1'000'000'000'000'000'000);
  EXPECT_EQ(*parse_size("1048576"), 1048576);
  EXPECT_EQ(*parse_size("0.1Ki"), 103);  // rounded up
  EXPECT_EQ(*parse_size(".5Gi"), kGi / 2);
  for (const char* bad :
       {"", "Gi", "0", "-1", "1.2.3", "1 Gi", "5TiB", "1e", "1e99", "99999999999999999999", "100Ei", "5m", "0x10"}) {
    Result<int64_t> size = parse_size(bad);
    ASSERT_FALSE(size) << bad;
    EXPECT_EQ(size.error().code(), Code::kSizeInvalid) << bad;
  }
}

TEST(Sizes, FormatIsReadBackExactly) {
  EXPECT_EQ(format_size(5 * 1024 * kGi), "5Ti");
  EXPECT_EQ(format_size(1536 * kGi), "1536Gi");
  EXPECT_EQ(format_size(100'000'000'000), "100G");
  EXPECT_EQ(format_size(1'234'567), "1234567");
  EXPECT_EQ(format_size_rounded(1536 * kGi), "1.50 TiB");
  EXPECT_EQ(format_size_rounded(12), "12 B");
  SeededRandom random(7);
  for (int i = 0; i < 2'000; ++i) {
    auto bytes = static_cast<int64_t>(1 + random.below(uint64_t{1} << (1 + random.below(61))));
    EXPECT_EQ(*parse_size(format_size(bytes)), bytes);
  }
}

TEST(History, Policies) {
  for (const char* good : {"7d", "30d", "20", "1", "off"}) EXPECT_EQ(HistoryPolicy::parse(good)->to_string(), good);
  for (const char* bad : {"", "d", "0", "0d", "-1", "7 d", "7h", "99999d", "on", "1.5d"})
    EXPECT_FALSE(HistoryPolicy::parse(bad)) << bad;
}

}  // namespace
}  // namespace cairn::volume
