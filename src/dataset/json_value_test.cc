#include "dataset/json_value.h"

#include <gtest/gtest.h>

namespace cairn::dataset {
namespace {

std::string printed(std::string_view text) {
  auto value = parse_json(text);
  return value ? python_json(*value) : "error: " + value.error().message();
}

TEST(JsonValue, PrintsAsPythonDoes) {
  EXPECT_EQ(printed(R"( {"b":[1,2.50,{}],"a":null,"c":[],"d":true} )"), R"({"b": [1, 2.5, {}], "a": null, "c": [], "d": true})");
  EXPECT_EQ(printed("1e16"), "1e+16");
  EXPECT_EQ(printed("1e15"), "1000000000000000.0");
  EXPECT_EQ(printed("12345678901234567890123"), "12345678901234567890123");
  EXPECT_EQ(printed("-0"), "0");
  EXPECT_EQ(printed("-0.0"), "-0.0");
  EXPECT_EQ(printed("0.0001"), "0.0001");
  EXPECT_EQ(printed("0.00001"), "1e-05");
  EXPECT_EQ(printed("1.5e-7"), "1.5e-07");
  EXPECT_EQ(printed("1e-999"), "0.0");
  EXPECT_EQ(printed("123456789.123456789"), "123456789.12345679");
  EXPECT_EQ(printed(R"("\u00e9\ud83d\ude42\u0001\u007f\/")"), "\"é🙂\\u0001\x7f/\"");
}

TEST(JsonValue, TheLastOfEqualKeysCountsAtTheFirstPlace) {
  EXPECT_EQ(printed(R"({"z":1,"a":2,"z":3})"), R"({"z": 3, "a": 2})");
  std::string many = "{";
  for (int i = 0; i < 100; ++i) many += "\"k" + std::to_string(i) + "\":0,";
  auto value = parse_json(many + "\"k3\":1,\"k70\":2,\"k99\":3}");
  ASSERT_TRUE(value);
  EXPECT_EQ(value->keys.size(), 100u);
  EXPECT_EQ(value->find("k3")->text, "1");
  EXPECT_EQ(value->find("k70")->text, "2");
  EXPECT_EQ(value->find("k99")->text, "3");
}

TEST(JsonValue, PythonText) {
  EXPECT_EQ(python_text(*parse_json("null")), "None");
  EXPECT_EQ(python_text(*parse_json("true")), "True");
  EXPECT_EQ(python_text(*parse_json("\"a\\nb\"")), "a\nb");
  EXPECT_EQ(python_text(*parse_json("[true,\"a\"]")), "[True, 'a']");
  EXPECT_EQ(python_text(*parse_json(R"({"k": [null, 1.0, "it's", "q\"", "'\"", "\\ \n\t\r\u0001\u00a0é\u2028🙂\ue000"]})")),
            R"({'k': [None, 1.0, "it's", 'q"', '\'"', '\\ \n\t\r\x01\xa0é\u2028🙂\ue000']})");
}

TEST(JsonValue, RefusesWhatIsNoJson) {
  for (std::string_view text : {"", " ", "{", "[1", "[1,]", "{\"a\":1,}", "{a:1}", "'a'", "01", "1.", ".5", "+1", "-", "1e", "tru",
                                "NaN", "Infinity", "1e999", "\"a", "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"", "\"\\ud800\"",
                                "\"\\udc00\"", "\"\\ud800\\u0041\"", "\"a\nb\"", "1 2", "{} x", "\"\xff\"", "\"\xed\xa0\x80\"",
                                "\"\xc0\x80\"", "\"\xf4\x90\x80\x80\"", "\"\xe2\x82\""}) {
    auto value = parse_json(text);
    ASSERT_FALSE(value) << text;
    EXPECT_EQ(value.error().code(), Code::kDataInvalid) << text;
    EXPECT_NE(value.error().message().find("at byte"), std::string::npos);
  }
}

TEST(JsonValue, IsBounded) {
  auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(parse_json(nested(kJsonDepthMax + 1)));
  auto deep = parse_json(nested(kJsonDepthMax + 2));
  ASSERT_FALSE(deep);
  EXPECT_EQ(deep.error().code(), Code::kLimitExceeded);
  EXPECT_FALSE(parse_json(std::string(200'000, '[')));

  std::string many = "[0";
  for (size_t i = 0; i < kJsonValuesMax; ++i) many += ",0";
  auto values = parse_json(many + "]");
  ASSERT_FALSE(values);
  EXPECT_EQ(values.error().code(), Code::kLimitExceeded);
}

}  // namespace
}  // namespace cairn::dataset
