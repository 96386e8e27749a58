#include "store/paths.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"

namespace cairn::store {
namespace {

TEST(Paths, ValidatesOnePathOnly) {
  for (std::string_view good : {"a", "a/b", "...", ".a/..b", "a b", "\xff\x01", "runs", "\\"}) {
    EXPECT_TRUE(is_valid_path(good)) << good;
    EXPECT_TRUE(validate_path(good));
  }
  for (std::string_view bad : {"", "/", "a/", "/a", "a//b", ".", "..", "a/.", "../a", "a/../b"}) {
    EXPECT_FALSE(is_valid_path(bad)) << bad;
    EXPECT_EQ(validate_path(bad).error().code(), Code::kPathInvalid);
  }
  EXPECT_FALSE(is_valid_path(std::string_view("a\0b", 3)));
  EXPECT_TRUE(is_valid_path(std::string(255, 'x')));
  EXPECT_FALSE(is_valid_path(std::string(256, 'x')));
  std::string deep = "x";
  for (int i = 1; i < 1024; ++i) deep += "/x";
  EXPECT_TRUE(is_valid_path(deep));
  EXPECT_FALSE(is_valid_path(deep + "/x"));
  std::string longest;
  for (int i = 0; i < 15; ++i) longest += std::string(255, 'y') + "/";
  longest += std::string(255, 'z');
  ASSERT_EQ(longest.size(), 4095u);
  EXPECT_TRUE(is_valid_path(longest));
  EXPECT_FALSE(is_valid_path(longest + "/z"));
}

TEST(Paths, NormalizesWhatPeopleType) {
  EXPECT_EQ(normalize_path("/data//x/./y/").value(), "data/x/y");
  EXPECT_EQ(normalize_path("/").value(), "");
  EXPECT_EQ(normalize_path("").value(), "");
  EXPECT_EQ(normalize_path("././runs/.").value(), "runs");
  EXPECT_FALSE(normalize_path("a/../b"));
  EXPECT_FALSE(normalize_path(std::string_view("a\0", 2)));
}

TEST(Paths, SlashSortsFirst) {
  std::vector<std::string> sorted = {"a", "a/x", "a/x/y", "a/y", "a\x01", "a b", "a-b", "a.txt", "aa", "b", "\xff"};
  for (size_t i = 0; i < sorted.size(); ++i) {
    for (size_t k = 0; k < sorted.size(); ++k) {
      int order = path_compare(sorted[i], sorted[k]);
      EXPECT_EQ(order < 0, i < k) << sorted[i] << " " << sorted[k];
      EXPECT_EQ(order == 0, i == k);
    }
  }
  // Differences in and after the eight-byte steps.
  std::string base(40, 'q');
  for (size_t at = 0; at < base.size(); ++at) {
    std::string other = base;
    other[at] = '/';
    EXPECT_GT(path_compare(base, other), 0);
    other[at] = '\xf0';
    EXPECT_LT(path_compare(base, other), 0);
  }
}

TEST(Paths, ASubtreeIsOneRange) {
  SeededRandom random(4);
  constexpr std::string_view kAlphabet = "ab-.\x01\xff";
  std::vector<std::string> paths;
  for (int i = 0; i < 2000; ++i) {
    std::string path(1, 'a');
    for (uint64_t n = random.below(8); n > 0; --n) {
      bool slash = random.below(3) == 0 && path.back() != '/';
      path += slash ? '/' : kAlphabet[random.below(kAlphabet.size())];
    }
    if (is_valid_path(path)) paths.push_back(path);
  }
  std::sort(paths.begin(), paths.end(), PathLess());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  ASSERT_GT(paths.size(), 300u);
  for (const std::string& prefix : paths) {
    int state = -1;
    for (const std::string& path : paths) {
      int now = compare_to_subtree(path, prefix);
      EXPECT_GE(now, state);
      EXPECT_EQ(now == 0, is_at_or_under(path, prefix));
      state = now;
    }
  }
}

TEST(Paths, KnowsRunsHoweverItIsReached) {
  EXPECT_TRUE(is_under_runs("runs"));
  EXPECT_TRUE(is_under_runs("runs/r1/x"));
  EXPECT_FALSE(is_under_runs("runs2"));
  EXPECT_FALSE(is_under_runs("run"));
  EXPECT_TRUE(prefix_touches_runs(""));
  EXPECT_TRUE(prefix_touches_runs("runs"));
  EXPECT_FALSE(prefix_touches_runs("run"));
  EXPECT_EQ(parent_path("a/b/c"), "a/b");
  EXPECT_EQ(parent_path("a"), "");
  EXPECT_EQ(base_name("a/b"), "b");
  EXPECT_EQ(join_path("", "x"), "x");
  EXPECT_EQ(join_path("a", "x"), "a/x");
}

TEST(Paths, EscapesWhatCannotBeShown) {
  EXPECT_EQ(escape_for_display("caf\xc3\xa9/\xe2\x82\xac \xf0\x9f\x8e\x89"), "caf\xc3\xa9/\xe2\x82\xac \xf0\x9f\x8e\x89");
  EXPECT_EQ(escape_for_display("a\nb\x1b[2J\\"), "a\\x0ab\\x1b[2J\\\\");
  EXPECT_EQ(escape_for_display("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(escape_for_display("\xc0\xaf\xed\xa0\x80\xf4\x90\x80\x80"), "\\xc0\\xaf\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(escape_for_display("\xe2\x80\xae"), "\\xe2\\x80\\xae");  // right-to-left override
}

}  // namespace
}  // namespace cairn::store
