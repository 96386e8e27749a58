#include "dataset/tokenizer.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "codec/hex.h"
#include "dataset/split_pattern.h"
#include "dataset/unicode_classes.h"
#include "dataset/utf8_repair.h"

namespace cairn::dataset {
namespace {

using Json = nlohmann::json;

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string golden(const std::string& name) { return read_file(std::string(CAIRN_SOURCE_DIR "/tests/golden/tokenizer/") + name); }

std::string from_hex(const std::string& hex) {
  auto bytes = codec::hex_decode_text(hex);
  EXPECT_TRUE(bytes.has_value()) << hex;
  return bytes.value_or("");
}

std::string repaired(std::string_view text) {
  std::string out;
  repair_utf8(text, out, nullptr);
  return out;
}

std::shared_ptr<const Tokenizer> parsed(const Json& json) {
  auto tokenizer = Tokenizer::parse(json.dump(), "t.json");
  EXPECT_TRUE(tokenizer.has_value()) << tokenizer.error().to_string();
  return tokenizer ? *tokenizer : nullptr;
}

Json variant_of(const Json& variant) {
  Json json = Json::parse(golden("tokenizer.json"));
  if (variant.contains("override")) json.update(variant["override"]);
  json["model"]["ignore_merges"] = variant.value("ignore_merges", false);
  if (variant.value("merges_as_strings", false)) {
    for (Json& merge : json["model"]["merges"]) merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  }
  return json;
}

TEST(Tokenizer, GivesTheIdsOfHuggingFace) {
  size_t cases = 0;
  for (const Json& variant : Json::parse(golden("cases.json"))) {
    auto tokenizer = parsed(variant_of(variant));
    ASSERT_NE(tokenizer, nullptr);
    auto encoder = Encoder::create(tokenizer);
    for (const Json& one : variant["cases"]) {
      const std::string text = from_hex(one[0]);
      const auto expected = one[1].get<std::vector<uint32_t>>();
      std::vector<uint32_t> ids{7}, again;
      std::vector<size_t> offsets;
      ASSERT_TRUE(encoder->encode(text, ids));
      ASSERT_TRUE(encoder->encode(text, again, offsets));
      ids.erase(ids.begin());
      EXPECT_EQ(ids, expected) << variant["name"] << ": " << text;
      EXPECT_EQ(again, expected) << variant["name"] << ": " << text;
      if (one.size() < 3 || !one[2].is_null()) {
        EXPECT_EQ(repaired(tokenizer->decode(ids)), one.size() > 2 ? from_hex(one[2]) : repaired(text)) << variant["name"];
      }
      ASSERT_EQ(offsets.size(), ids.size());
      for (size_t offset : offsets) EXPECT_LT(offset, text.size());
      ++cases;
    }
  }
  EXPECT_GT(cases, 300u);
}

TEST(Tokenizer, KnowsItsTokens) {
  auto tokenizer = parsed(Json::parse(golden("tokenizer.json")));
  EXPECT_EQ(tokenizer->vocab_size(), 712u);
  EXPECT_EQ(tokenizer->id_of("<|endoftext|>"), std::optional<uint32_t>(700));
  EXPECT_EQ(tokenizer->id_of("!"), std::optional<uint32_t>(0));
  EXPECT_EQ(tokenizer->id_of("no such token"), std::nullopt);
  const std::vector<uint32_t> ids = {700, 0, 703, 5'000'000};
  EXPECT_EQ(tokenizer->decode(ids), "<|endoftext|>!<think>");
  EXPECT_EQ(tokenizer->decode(ids, true), "!<think>");
}

// Each byte of the text belongs to the last token that begins at or before it: without changes to the text, the tokens between two
// offsets spell exactly the bytes between them.
TEST(Tokenizer, OffsetsCutTheTextWhereTokensBegin) {
  for (const Json& variant : Json::parse(golden("cases.json"))) {
    if (variant["name"] != "qwen" && variant["name"] != "gpt2" && variant["name"] != "llama3") continue;
    auto tokenizer = parsed(variant_of(variant));
    auto encoder = Encoder::create(tokenizer);
    for (const Json& one : variant["cases"]) {
      const std::string text = from_hex(one[0]);
      if (!is_nfc(repaired(text)) || repaired(text) != text || text.find("<strip>") != std::string::npos || text.find("<left>") != std::string::npos || text.find("<right>") != std::string::npos || text.find("ne") != std::string::npos || text.find("n\xC3\xA9") != std::string::npos) continue;
      std::vector<uint32_t> ids;
      std::vector<size_t> offsets;
      ASSERT_TRUE(encoder->encode(text, ids, offsets));
      offsets.push_back(text.size());
      for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(tokenizer->decode(std::span(&ids[i], 1)), text.substr(offsets[i], offsets[i + 1] - offsets[i])) << text;
    }
  }
}

TEST(Tokenizer, OffsetsPointIntoTheTextAsItWas) {
  auto tokenizer = parsed(Json::parse(golden("tokenizer.json")));
  auto encoder = Encoder::create(tokenizer);
  const std::string text = "e\xCC\x81\xFF<think>z";  // e + U+0301, a bad byte
  std::vector<uint32_t> ids;
  std::vector<size_t> offsets;
  ASSERT_TRUE(encoder->encode(text, ids, offsets));
  ASSERT_GE(ids.size(), 4u);
  EXPECT_EQ(tokenizer->decode(ids), "\xC3\xA9\xEF\xBF\xBD<think>z");
  EXPECT_EQ(offsets.front(), 0u);
  EXPECT_EQ(offsets[offsets.size() - 2], 4u);
  EXPECT_EQ(offsets.back(), 11u);
  EXPECT_TRUE(std::is_sorted(offsets.begin(), offsets.end()));
}

TEST(Tokenizer, LongWordsMergeAsShortOnesDo) {
  // The same word by the list and by the heap, with every merge there is: a run of one letter and random letters.
  auto tokenizer = parsed(Json::parse(golden("tokenizer.json")));
  SeededRandom random(3);
  auto encoder = Encoder::create(tokenizer);
  for (int round = 0; round < 200; ++round) {
    std::string word;
    const size_t size = 20 + random.below(60);
    for (size_t i = 0; i < size; ++i) word += static_cast<char>("etaoinshrd"[random.below(10)]);
    std::vector<uint32_t> ids;
    ASSERT_TRUE(encoder->encode(word, ids));
    EXPECT_EQ(tokenizer->decode(ids), word);
  }
  // One word of a megabyte ends in time.
  std::string huge(1 << 20, 'e');
  for (char& letter : huge) letter = "etaoinshrd"[random.below(10)];
  std::vector<uint32_t> ids;
  ASSERT_TRUE(encoder->encode(huge, ids));
  EXPECT_EQ(tokenizer->decode(ids), huge);
}

// ---- what is refused ----

Json small() {
  Json json = Json::parse(golden("tokenizer.json"));
  return json;
}

std::string refusal(const Json& json) {
  auto tokenizer = Tokenizer::parse(json.dump(), "t.json");
  return tokenizer ? "accepted" : tokenizer.error().to_string();
}

TEST(TokenizerRefuses, WhatIsNotBuiltByName) {
  auto with = [](const char* pointer, Json value) {
    Json json = small();
    json[Json::json_pointer(pointer)] = std::move(value);
    return refusal(json);
  };
  EXPECT_EQ(with("/version", "1.0"), "accepted");
  EXPECT_EQ(with("/post_processor", {{"type", "Whatever"}}), "accepted");
  EXPECT_THAT(with("/normalizer", {{"type", "Lowercase"}}), testing::HasSubstr("format_unsupported: t.json: the normalizer 'Lowercase'"));
  EXPECT_THAT(with("/normalizer", {{"type", "Sequence"}, {"normalizers", {{{"type", "NFKC"}}}}}), testing::HasSubstr("'NFKC'"));
  EXPECT_THAT(with("/pre_tokenizer", {{"type", "Whitespace"}}), testing::HasSubstr("format_unsupported: t.json: the pre-tokenizer 'Whitespace'"));
  EXPECT_THAT(with("/pre_tokenizer", nullptr), testing::HasSubstr("format_unsupported"));
  EXPECT_THAT(with("/pre_tokenizer/pretokenizers/0/behavior", "Removed"), testing::HasSubstr("behavior 'Removed'"));
  EXPECT_THAT(with("/pre_tokenizer/pretokenizers/0/invert", true), testing::HasSubstr("'invert'"));
  EXPECT_THAT(with("/pre_tokenizer/pretokenizers/0/pattern", {{"String", " "}}), testing::HasSubstr("without a 'Regex'"));
  EXPECT_THAT(with("/pre_tokenizer/pretokenizers/0/pattern/Regex", "("), testing::HasSubstr("data_invalid"));
  EXPECT_THAT(with("/pre_tokenizer/pretokenizers/0/pattern/Regex", "\\w+"), testing::HasSubstr("format_unsupported: t.json: the Split pattern uses \\w"));
  EXPECT_THAT(with("/decoder", {{"type", "Metaspace"}}), testing::HasSubstr("the decoder 'Metaspace'"));
  EXPECT_THAT(with("/model/type", "Unigram"), testing::HasSubstr("the model 'Unigram'"));
  EXPECT_THAT(with("/model/dropout", 0.1), testing::HasSubstr("dropout"));
  EXPECT_THAT(with("/model/end_of_word_suffix", "</w>"), testing::HasSubstr("end_of_word_suffix"));
}

TEST(TokenizerRefuses, WhatIsWrong) {
  auto with = [](const char* pointer, Json value) {
    Json json = small();
    json[Json::json_pointer(pointer)] = std::move(value);
    return refusal(json);
  };
  EXPECT_THAT(with("/model/vocab/zz", 5000), testing::HasSubstr("there are holes"));
  EXPECT_THAT(with("/model/vocab/zz", 3), testing::HasSubstr("both have id 3"));
  EXPECT_THAT(with("/model/vocab/zz", -1), testing::HasSubstr("is not a number from 0"));
  EXPECT_THAT(with("/model/vocab", Json::object()), testing::HasSubstr("missing or empty"));
  EXPECT_THAT(with("/model/merges/3", {"zz", "a"}), testing::HasSubstr("merge 3 names 'zz'"));
  EXPECT_THAT(with("/model/merges/3", {"!", "!"}), testing::HasSubstr("merge 3 makes '!!'"));
  EXPECT_THAT(with("/model/merges/3", "a b c"), testing::HasSubstr("merge 3 is not a pair"));
  EXPECT_THAT(with("/added_tokens/2/id", 9000), testing::HasSubstr("it must be 700"));
  EXPECT_THAT(with("/added_tokens/3/content", "<|endoftext|>"), testing::HasSubstr("comes twice"));
  EXPECT_THAT(with("/added_tokens/1/content", std::string(5000, 'x')), testing::HasSubstr("limit_exceeded"));
  EXPECT_THAT(with("/added_tokens/1/lstrip", nullptr), testing::HasSubstr("'lstrip' of a token"));
  EXPECT_THAT(with("/added_tokens/2/id", "x"), testing::HasSubstr("has id of type string; it must be 700"));
  // A list of lists of lists, which printing would descend into.
  Json json = small();
  json["added_tokens"][2]["id"] = "DEEP";
  std::string nested = json.dump();
  nested.replace(nested.find("\"DEEP\""), 6, std::string(200'000, '[') + std::string(200'000, ']'));
  auto deep = Tokenizer::parse(nested, "t.json");
  ASSERT_FALSE(deep);
  EXPECT_THAT(deep.error().message(), testing::HasSubstr("has id of type array; it must be 700"));
  for (const char* text : {"", "{", "[]", "null", "{}", "\xFF"}) {
    EXPECT_FALSE(Tokenizer::parse(text, "t.json").has_value()) << text;
  }
}

TEST(TokenizerRefuses, APatternThatBacktracksWithoutEnd) {
  Json json = small();
  json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(?:a+)+(?:a+)+(?:a+)+[bc]";
  auto tokenizer = parsed(json);
  ASSERT_NE(tokenizer, nullptr);
  auto encoder = Encoder::create(tokenizer);
  std::vector<uint32_t> ids{1};
  std::vector<size_t> offsets{2};
  Status done = encoder->encode("<think>" + std::string(200, 'a'), ids, offsets);
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code(), Code::kLimitExceeded);
  EXPECT_EQ(ids, std::vector<uint32_t>{1});
  EXPECT_EQ(offsets, std::vector<size_t>{2});
  ASSERT_TRUE(encoder->encode("x", ids));
}

// ---- own matchers against PCRE2 ----

std::string random_text(SeededRandom& random) {
  static const std::vector<std::vector<char32_t>> pools = [] {
    std::vector<std::vector<char32_t>> made(4);
    for (char c : std::string(" \t\n\r'aesStTrRvVmMlLdD019.,;-_")) made[0].push_back(static_cast<unsigned char>(c));
    for (char32_t c : {0x17F, 0x85, 0xA0, 0x180E, 0x2028, 0x3000, 0x212A, 0x301, 0x661, 0xBD, 0x4E2D, 0x1F600, 0x10D40, 0x1C89, 0x2EBF0}) made[1].push_back(c);
    for (char32_t c = 0; c < 0x3000; ++c) made[2].push_back(c);
    for (char32_t c = 0; c < 0x110000; ++c) {
      if (c < 0xD800 || c > 0xDFFF) made[3].push_back(c);
    }
    return made;
  }();
  std::string text;
  const size_t pieces = random.below(40), a = random.below(4), b = random.below(4);
  for (size_t i = 0; i < pieces; ++i) {
    const auto& pool = pools[random.below(2) == 0 ? a : b];
    const char32_t c = pool[random.below(pool.size())];
    for (uint64_t times = random.below(8) == 0 ? random.below(5) : 1; times > 0; --times) append_utf8(text, c);
  }
  return text;
}

Status split_all(Splitter& splitter, std::string_view text, std::vector<size_t>& ends, size_t count) {
  for (size_t from = 0; from < text.size();) CAIRN_CHECK_OK(splitter.split(text, from, count, ends));
  return ok();
}

std::unique_ptr<Splitter> splitter_of(std::string_view pattern, bool use_own_code) {
  auto compiled = SplitPattern::compile(pattern, "t", use_own_code);
  EXPECT_TRUE(compiled.has_value()) << compiled.error().to_string();
  return Splitter::create(*compiled);
}

TEST(SplitPattern, OwnMatchersCutAsTheirPatternsDo) {
  const uint64_t seed = system_random().next_u64();
  SeededRandom random(seed);
  for (std::string_view pattern : {kGpt2Pattern, kQwenPattern, kLlama3Pattern}) {
    auto own = splitter_of(pattern, true), pcre2 = splitter_of(pattern, false);
    for (int round = 0; round < 4000; ++round) {
      const std::string text = random_text(random);
      std::vector<size_t> a, b;
      ASSERT_TRUE(split_all(*own, text, a, 1 + random.below(9)));
      ASSERT_TRUE(split_all(*pcre2, text, b, 1 + random.below(9)));
      ASSERT_EQ(a, b) << "seed " << seed << " pattern " << pattern << " text " << codec::hex_encode(text);
    }
  }
}

TEST(SplitPattern, KeepsWhatLiesBetweenMatches) {
  auto splitter = splitter_of("b*", true);  // with empty matches
  std::vector<size_t> ends;
  ASSERT_TRUE(split_all(*splitter, "acbbc\xC3\xA9", ends, 1));
  EXPECT_EQ(ends, (std::vector<size_t>{1, 2, 4, 5, 7}));
  ends.clear();
  ASSERT_TRUE(split_all(*splitter, "", ends, 1));
  EXPECT_TRUE(ends.empty());
}

}  // namespace
}  // namespace cairn::dataset
