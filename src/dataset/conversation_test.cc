#include "dataset/conversation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cairn::dataset {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

Error error_of(std::string_view row) {
  auto result = parse_conversation(row, "chat.jsonl, line 7");
  EXPECT_FALSE(result) << row;
  return result ? Error(Code::kInternal, "no error") : result.error();
}

TEST(Conversation, ReadsMessages) {
  auto result = parse_conversation(
      R"({"id": 1, "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": "a"}, "b"]},
          {"role": "assistant", "content": null, "thinking": "r", "reasoning_content": null,
           "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{\"b\": 1, \"a\": null}"}}]},
          {"role": "tool", "content": "3", "tool_call_id": "1"}]})",
      "x");
  ASSERT_TRUE(result) << result.error().message();
  const auto& messages = result->messages;
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages[0].role, Role::kSystem);
  EXPECT_EQ(messages[1].content, "ab");
  EXPECT_EQ(messages[2].content, "");
  EXPECT_EQ(messages[2].reasoning, "r");
  ASSERT_EQ(messages[2].tool_calls.size(), 1u);
  EXPECT_EQ(messages[2].tool_calls[0].name, "f");
  EXPECT_EQ(python_json(messages[2].tool_calls[0].arguments), R"({"b": 1, "a": null})");
  EXPECT_EQ(messages[3].role, Role::kTool);
  EXPECT_TRUE(result->tools.empty());
}

TEST(Conversation, ArgumentsMayBeAbsent) {
  auto result = parse_conversation(
      R"({"messages": {"role": "assistant", "tool_calls": [{"name": "f"}, {"function": {"name": "g", "arguments": null}}]}})", "x");
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_EQ(python_json(result->messages[0].tool_calls[0].arguments), "{}");
  EXPECT_EQ(python_json(result->messages[0].tool_calls[1].arguments), "{}");
}

TEST(Conversation, SaysWhereAndWhatIsWrong) {
  Error error = error_of(R"({"messages": [{"role": "user", "content": "a"}, {"role": "bot", "content": "b"}]})");
  EXPECT_EQ(error.code(), Code::kDataInvalid);
  EXPECT_EQ(error.message(), "chat.jsonl, line 7: messages[1]: its role is 'bot'; expected system, user, assistant or tool");
  EXPECT_THAT(error.hint(), HasSubstr("sft-data.md"));
}

TEST(Conversation, RefusesBadRows) {
  struct Case {
    std::string_view row, complaint;
  };
  const Case cases[] = {
      {"", "not valid JSON"},
      {"[]", "the row is a list"},
      {"{}", "neither 'messages' nor both"},
      {R"({"prompt": "a"})", "neither 'messages' nor both"},
      {R"({"conversations": []})", "'conversations'"},
      {R"({"messages": []})", "no message"},
      {R"({"messages": 3})", "messages: expected a string or an object, not a number"},
      {R"({"messages": [3]})", "messages[0]: expected a string or an object, not a number"},
      {R"({"messages": [{"content": "a"}]})", "no role"},
      {R"({"messages": [{"from": "human", "value": "a"}]})", "'from'"},
      {R"({"messages": [{"role": 1, "content": "a"}]})", "no role"},
      {R"({"messages": [{"role": "user", "content": 1}]})", "content is a number"},
      {R"({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]})", "'image_url'"},
      {R"({"messages": [{"role": "user", "content": [{"type": "text"}]}]})", "without a string 'text'"},
      {R"({"messages": [{"role": "user", "content": [1]}]})", "without a string 'text'"},
      {R"({"messages": [{"role": "assistant", "reasoning_content": ["a"]}]})", "reasoning_content is a list"},
      {R"({"messages": [{"role": "assistant", "thinking": {}}]})", "thinking is an object"},
      {R"({"messages": [{"role": "assistant", "tool_calls": {}}]})", "tool_calls is an object"},
      {R"({"messages": [{"role": "assistant", "tool_calls": ["f"]}]})", "a tool call is a string"},
      {R"({"messages": [{"role": "assistant", "tool_calls": [{"function": {}}]}]})", "no name"},
      {R"({"messages": [{"role": "assistant", "tool_calls": [{"name": "f", "arguments": "{"}]}]})", "arguments of tool call 'f' are not valid JSON"},
      {R"({"messages": [{"role": "assistant", "tool_calls": [{"name": "f", "arguments": "3"}]}]})", "are a number"},
      {R"({"messages": [{"role": "assistant", "tool_calls": [{"name": "f", "arguments": [1]}]}]})", "are a list"},
      {R"({"messages": [{"role": "assistant", "function_call": {"name": "f"}}]})", "function_call"},
      {R"({"messages": "a", "tools": 1})", "tools is a number"},
      {R"({"messages": "a", "tools": "["})", "tools is a string that is not valid JSON"},
      {R"({"messages": "a", "tool_defs": {"name": "f"}})", "tool_defs is an object"},
      {R"({"messages": "a", "tools": [{"function": {"name": "f"}}]})", "tools[0]"},
      {R"({"messages": "a", "tools": [{"type": "function", "function": 1}]})", "function is a number"},
      {R"({"messages": "a", "tools": ["f"]})", "a tool is a string"},
  };
  for (const Case& c : cases) {
    Error error = error_of(c.row);
    EXPECT_EQ(error.code(), Code::kDataInvalid) << c.row;
    EXPECT_THAT(error.message(), StartsWith("chat.jsonl, line 7: ")) << c.row;
    EXPECT_THAT(error.message(), HasSubstr(std::string(c.complaint))) << c.row;
  }
}

TEST(Conversation, MessagesAreBounded) {
  std::string row = "{\"messages\": [\"a\"";
  for (size_t i = 0; i < kMessagesMax; ++i) row += ",\"a\"";
  EXPECT_EQ(error_of(row + "]}").code(), Code::kLimitExceeded);
}

TEST(Conversation, TextColumnsMayHoldAList) {
  auto row = parse_json(R"({"messages": "[{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\"}]"})");
  ASSERT_TRUE(row);
  auto as_text = conversation_of(*row, "x");
  ASSERT_TRUE(as_text);
  EXPECT_EQ(as_text->messages.size(), 1u);
  auto as_list = conversation_of(*row, "x", true);
  ASSERT_TRUE(as_list);
  ASSERT_EQ(as_list->messages.size(), 2u);
  EXPECT_EQ(as_list->messages[1].content, "b");

  // Text that only looks like a list stays text.
  for (std::string text : {"[1, 2]", "[]", "[{\\\"a\\\": 1}]", "[x", "Hi"}) {
    auto other = parse_json("{\"prompt\": \"" + text + "\", \"completion\": \"b\"}");
    ASSERT_TRUE(other) << text;
    auto result = conversation_of(*other, "x", true);
    ASSERT_TRUE(result) << text;
    EXPECT_EQ(result->messages.size(), 2u) << text;
  }
}

}  // namespace
}  // namespace cairn::dataset
