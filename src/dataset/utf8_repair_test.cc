#include "dataset/utf8_repair.h"

#include <gtest/gtest.h>

namespace cairn::dataset {
namespace {

std::string repaired(std::string_view text) {
  std::string out;
  repair_utf8(text, out, nullptr);
  return out;
}

// Expected values are Python's bytes.decode("utf-8", errors="replace").
TEST(Utf8Repair, ReplacesEachMaximalIllFormedPart) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(repaired("plain \xC3\xA9 \xF0\x9F\x98\x80"), "plain \xC3\xA9 \xF0\x9F\x98\x80");
  EXPECT_EQ(repaired("a\xFF" "b"), "a" + r + "b");
  EXPECT_EQ(repaired("\xC0\x80"), r + r);
  EXPECT_EQ(repaired("\xE2\x82"), r);
  EXPECT_EQ(repaired("\xE2\x82x"), r + "x");
  EXPECT_EQ(repaired("\xF0\x9F\x98" "abc"), r + "abc");
  EXPECT_EQ(repaired("\xED\xA0\x80"), r + r + r);
  EXPECT_EQ(repaired("\xF4\x90\x80\x80"), r + r + r + r);
  EXPECT_EQ(repaired("\xE0\x80\x80"), r + r + r);
  EXPECT_EQ(repaired("\x80\xBF"), r + r);
  EXPECT_EQ(repaired("\xF0\x9F\xC3\xA9"), r + "\xC3\xA9");
}

TEST(Utf8Repair, MapsOffsetsBack) {
  std::string out;
  std::vector<TextPiece> pieces;
  repair_utf8("ab\xE2\x82" "cd\xFF", out, &pieces);
  ASSERT_EQ(out.size(), 2u + 3 + 2 + 3);
  const size_t expected[] = {0, 1, 2, 2, 2, 4, 5, 6, 6, 6};
  for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(offset_before(pieces, i), expected[i]) << i;
}

TEST(Utf8Repair, FindsTheFirstBadByteAnywhere) {
  for (size_t at = 0; at < 40; ++at) {
    std::string text(40, 'x');
    EXPECT_EQ(well_formed_prefix(text), 40u);
    text[at] = '\x80';
    EXPECT_EQ(well_formed_prefix(text), at);
  }
}

}  // namespace
}  // namespace cairn::dataset
