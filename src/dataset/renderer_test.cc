// The texts of both formats against goldens made by the models' own template and renderer (tests/golden/chat), and the masks.
#include "dataset/renderer.h"

#include <fstream>

#include <gtest/gtest.h>

#include "dataset/sft_test_support.h"

namespace cairn::dataset {
namespace {

std::vector<JsonValue> goldens() {
  std::ifstream file(CAIRN_SOURCE_DIR "/tests/golden/chat/conversations.jsonl");
  std::vector<JsonValue> cases;
  for (std::string line; std::getline(file, line);) {
    auto value = parse_json(line);
    if (value) cases.push_back(*std::move(value));
  }
  return cases;
}

void compare(ChatFormat format, const char* key) {
  auto renderer = make_renderer({format, true});
  auto cases = goldens();
  ASSERT_GE(cases.size(), 60u);
  for (const JsonValue& c : cases) {
    auto conversation = parse_conversation(c.find("row")->text, c.find("name")->text);
    ASSERT_TRUE(conversation) << conversation.error().message();
    EXPECT_EQ(renderer->render(*conversation).text, c.find(key)->text) << c.find("name")->text;
  }
}

TEST(Renderer, Qwen3GivesTheTextOfItsChatTemplate) { compare(ChatFormat::kQwen3, "qwen3"); }
TEST(Renderer, PrimeQwen3GivesTheTextOfItsRenderer) { compare(ChatFormat::kPrimeQwen3, "prime_qwen3"); }

// The text with [ ] around what is learnt.
std::string marked(std::string_view row, const RendererOptions& options, const RoleMask& mask) {
  auto conversation = parse_conversation(row, "row");
  if (!conversation) return conversation.error().message();
  ByteTokenizer tokenizer;
  ByteEncoder encoder;
  TokenizedText tokens;
  EXPECT_TRUE(tokenize(make_renderer(options)->render(*conversation), mask, encoder, tokens));
  std::string out;
  bool inside = false;
  for (size_t i = 0; i < tokens.ids.size(); ++i) {
    if ((tokens.trainable[i] != 0) != inside) out += inside ? "]" : "[";
    inside = tokens.trainable[i] != 0;
    out += tokenizer.decode({&tokens.ids[i], 1}, false);
  }
  return inside ? out + "]" : out;
}

constexpr std::string_view kRow =
    R"({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"},
        {"role": "assistant", "content": "a", "tool_calls": [{"name": "f", "arguments": {}}]},
        {"role": "tool", "content": "t1"}, {"role": "tool", "content": "t2"}, {"role": "assistant", "content": "b"}],
        "tools": [{"name": "f"}]})";
const RendererOptions kQwen3Options{ChatFormat::kQwen3, true};

TEST(Masks, AssistantBodiesWithTheirEnd) {
  std::string text = marked(kRow, kQwen3Options, kAssistantOnly);
  EXPECT_EQ(text.substr(text.find("<|im_start|>user")),
            "<|im_start|>user\nu<|im_end|>\n"
            "<|im_start|>assistant\n[a\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call><|im_end|>]\n"
            "<|im_start|>user\n<tool_response>\nt1\n</tool_response>\n<tool_response>\nt2\n</tool_response><|im_end|>\n"
            "<|im_start|>assistant\n[<think>\n\n</think>\n\nb<|im_end|>]\n");
  EXPECT_EQ(text.find('['), text.find("[a\n"));
}

TEST(Masks, OtherRolesByContentOnly) {
  std::string text = marked(kRow, kQwen3Options, {true, true, false, true});
  EXPECT_NE(text.find("<|im_start|>system\n[s]\n\n# Tools"), std::string::npos) << text;
  EXPECT_NE(text.find("<|im_start|>user\n[u]<|im_end|>\n<|im_start|>assistant\na\n<tool_call>"), std::string::npos);
  EXPECT_NE(text.find("<tool_response>\n[t1]\n</tool_response>\n<tool_response>\n[t2]\n</tool_response><|im_end|>"), std::string::npos);
  EXPECT_TRUE(text.ends_with("b<|im_end|>\n"));
}

TEST(Masks, AssistantTurnsOfThePromptAreTrainedToo) {
  EXPECT_EQ(marked(R"({"prompt": [{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}, {"role": "user", "content": "v"}],
                       "completion": "b"})",
                   {ChatFormat::kPrimeQwen3, true}, kAssistantOnly),
            "<|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\n[a<|im_end|>]\n"
            "<|im_start|>user\nv<|im_end|>\n<|im_start|>assistant\n[b<|im_end|>]\n");
}

TEST(Masks, WithThinkingOffTheEmptyBlockIsGivenNotLearnt) {
  constexpr std::string_view plain = R"({"prompt": "u", "completion": "a"})";
  EXPECT_EQ(marked(plain, {ChatFormat::kQwen3, false}, kAssistantOnly),
            "<|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n[a<|im_end|>]\n");
  constexpr std::string_view reasoned = R"({"prompt": "u", "completion": {"role": "assistant", "content": "a", "thinking": "r"}})";
  EXPECT_EQ(marked(reasoned, {ChatFormat::kQwen3, false}, kAssistantOnly),
            "<|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\n[<think>\nr\n</think>\n\na<|im_end|>]\n");
}

// Gives one token to each run of equal bytes, so that tokens cross the borders of bodies.
class RunEncoder final : public Encoder {
 public:
  Status encode(std::string_view, std::vector<uint32_t>&) override { return ok(); }
  Status encode(std::string_view text, std::vector<uint32_t>& ids, std::vector<size_t>& offsets) override {
    for (size_t at = 0; at < text.size();) {
      ids.push_back(static_cast<uint8_t>(text[at]));
      offsets.push_back(at);
      at = std::min(text.find_first_not_of(text[at], at), text.size());
    }
    return ok();
  }
};

TEST(Masks, ATokenBelongsToItsFirstCharacter) {
  RenderedText rendered{"aabbbcc", {{1, 4, Role::kAssistant}, {4, 6, Role::kUser}}};
  RunEncoder encoder;
  TokenizedText tokens;
  EXPECT_TRUE(tokenize(rendered, kAssistantOnly, encoder, tokens));
  EXPECT_EQ(tokens.ids, (std::vector<uint32_t>{'a', 'b', 'c'}));
  EXPECT_EQ(tokens.trainable, (std::vector<uint8_t>{0, 1, 0}));
  EXPECT_TRUE(tokenize(rendered, {false, true, false, false}, encoder, tokens));
  EXPECT_EQ(tokens.trainable, (std::vector<uint8_t>{0, 0, 1}));
}

TEST(ChatTokens, ATokenizerWithoutThemIsRefused) {
  ByteTokenizer tokenizer;
  ByteEncoder good;
  EXPECT_TRUE(check_chat_tokens(tokenizer, good, "t"));
  RunEncoder bad;
  auto status = check_chat_tokens(tokenizer, bad, "models/small");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::kConfigInvalid);
  EXPECT_NE(status.error().message().find("models/small"), std::string::npos);
}

}  // namespace
}  // namespace cairn::dataset
