// One row of a fine-tuning data set as a conversation. Accepted shapes (docs/formats/sft-data.md): `messages`, or `prompt` and
// `completion`, each a string, one message or a list; tools under `tools` or `tool_defs`. Whatever cannot be taken as it is meant
// is refused by name rather than dropped.
//
// Keys whose value is null count as absent, except inside the arguments of tool calls. Plain data; the functions are
// thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dataset/json_value.h"

namespace cairn::dataset {

inline constexpr size_t kMessagesMax = 10'000;

enum class Role : uint8_t { kSystem, kUser, kAssistant, kTool };
inline constexpr size_t kRoles = 4;

std::string_view role_name(Role role);

struct ToolCall {
  std::string name;
  JsonValue arguments;  // an object
};

struct Message {
  Role role = Role::kUser;
  std::string content;
  std::optional<std::string> reasoning;  // only when the row has it in a field of its own
  std::vector<ToolCall> tool_calls;
};

struct Conversation {
  std::vector<Message> messages;  // at least one
  std::vector<JsonValue> tools;   // each {"type": "function", "function": {…}}
};

// A row of JSONL. data_invalid starts with `where` ("chat.jsonl, line 12") and says what is wrong.
Result<Conversation> parse_conversation(std::string_view json, const std::string& where);

// A row that is already JSON. `texts_may_hold_json`: the row comes from flat text columns, so that a `messages`, `prompt` or
// `completion` which is the JSON text of a list of objects stands for that list.
Result<Conversation> conversation_of(const JsonValue& row, const std::string& where, bool texts_may_hold_json = false);

}  // namespace cairn::dataset
