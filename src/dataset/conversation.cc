#include "dataset/conversation.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

namespace cairn::dataset {

namespace {

constexpr std::array<std::string_view, kRoles> kRoleNames = {"system", "user", "assistant", "tool"};
// The first is the name that chat templates read.
constexpr std::array<std::string_view, 3> kReasoningKeys = {"reasoning_content", "thinking", "reasoning"};

template <class... Args>
Error bad(fmt::format_string<Args...> format, Args&&... args) {
  return Error(Code::kDataInvalid, fmt::format(format, std::forward<Args>(args)...));
}

const JsonValue* present(const JsonValue& object, std::string_view key) {
  const JsonValue* value = object.find(key);
  return value && !value->is_null() ? value : nullptr;
}

// The text of one part of a list-valued content.
Result<std::string_view> part_text(const JsonValue& part) {
  if (part.is_string()) return std::string_view(part.text);
  const JsonValue* type = present(part, "type");
  if (type && (!type->is_string() || type->text != "text")) {
    return bad("content holds a part of type {}; only text parts can be trained on",
               type->is_string() ? fmt::format("'{}'", type->text) : std::string(type->kind_name()));
  }
  const JsonValue* text = present(part, "text");
  if (!text || !text->is_string()) return bad("content holds a part that is {} without a string 'text'", part.kind_name());
  return std::string_view(text->text);
}

Result<std::string> content_text(const JsonValue* content) {
  if (!content) return std::string();
  if (content->is_string()) return content->text;
  if (!content->is_array()) return bad("content is {}; expected a string or a list of text parts", content->kind_name());
  std::string joined;
  for (const JsonValue& part : content->items) {
    CAIRN_TRY(std::string_view text, part_text(part));
    joined += text;
  }
  return joined;
}

Result<ToolCall> tool_call_of(const JsonValue& value) {
  if (!value.is_object()) return bad("a tool call is {}; expected an object", value.kind_name());
  const JsonValue* function = present(value, "function");
  if (!function) function = &value;
  const JsonValue* name = present(*function, "name");
  if (!name || !name->is_string()) return bad("a tool call has no name");
  ToolCall call;
  call.name = name->text;
  call.arguments = JsonValue::of_object();
  const JsonValue* arguments = present(*function, "arguments");
  if (!arguments) return call;
  if (arguments->is_string()) {
    auto parsed = parse_json(arguments->text);
    if (!parsed) return bad("the arguments of tool call '{}' are {}", call.name, parsed.error().message());
    call.arguments = *std::move(parsed);
  } else {
    call.arguments = *arguments;
  }
  if (!call.arguments.is_object()) {
    return bad("the arguments of tool call '{}' are {}; expected an object", call.name, call.arguments.kind_name());
  }
  return call;
}

Status read_reasoning(const JsonValue& value, Message& message) {
  for (std::string_view key : kReasoningKeys) {
    const JsonValue* reasoning = present(value, key);
    if (!reasoning) continue;
    if (!reasoning->is_string()) return bad("{} is {}; expected a string", key, reasoning->kind_name());
    message.reasoning = reasoning->text;
    break;
  }
  return ok();
}

Result<Message> message_of(const JsonValue& value) {
  const JsonValue* role = present(value, "role");
  if (!role || !role->is_string()) {
    if (present(value, "from")) return bad("it has 'from' instead of 'role'; this shape is not read, write role and content");
    return bad("it has no role");
  }
  auto known = std::find(kRoleNames.begin(), kRoleNames.end(), role->text);
  if (known == kRoleNames.end()) {
    return bad("its role is '{}'; expected system, user, assistant or tool", role->text.substr(0, 64));
  }
  Message message;
  message.role = static_cast<Role>(known - kRoleNames.begin());
  CAIRN_TRY(message.content, content_text(present(value, "content")));
  if (message.role != Role::kAssistant) return message;
  CAIRN_CHECK_OK(read_reasoning(value, message));
  if (present(value, "function_call")) return bad("it has the old 'function_call'; write it as a list under 'tool_calls'");
  const JsonValue* calls = present(value, "tool_calls");
  if (!calls) return message;
  if (!calls->is_array()) return bad("tool_calls is {}; expected a list", calls->kind_name());
  for (const JsonValue& item : calls->items) {
    CAIRN_TRY(ToolCall call, tool_call_of(item));
    message.tool_calls.push_back(std::move(call));
  }
  return message;
}

Status append_messages(const JsonValue& value, std::string_view field, Role default_role, std::vector<Message>& messages) {
  auto append_one = [&](const JsonValue& item) -> Status {
    if (messages.size() >= kMessagesMax) {
      return Error(Code::kLimitExceeded, fmt::format("more than {} messages in one row", kMessagesMax));
    }
    if (item.is_string()) {
      Message message;
      message.role = default_role;
      message.content = item.text;
      messages.push_back(std::move(message));
      return ok();
    }
    if (!item.is_object()) return bad("expected a string or an object, not {}", item.kind_name());
    CAIRN_TRY(Message message, message_of(item));
    messages.push_back(std::move(message));
    return ok();
  };
  if (value.is_null()) return ok();
  if (!value.is_array()) {
    auto status = append_one(value);
    if (!status) return Error(status.error().code(), fmt::format("{}: {}", field, status.error().message()));
    return ok();
  }
  for (size_t i = 0; i < value.items.size(); ++i) {
    auto status = append_one(value.items[i]);
    if (!status) return Error(status.error().code(), fmt::format("{}[{}]: {}", field, i, status.error().message()));
  }
  return ok();
}

// A list of objects that a text column holds as JSON text; nothing when the text is just text.
std::optional<JsonValue> list_in_text(const JsonValue& value) {
  if (!value.is_string()) return std::nullopt;
  size_t begin = value.text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos || value.text[begin] != '[') return std::nullopt;
  auto parsed = parse_json(value.text);
  if (!parsed || !parsed->is_array() || parsed->items.empty()) return std::nullopt;
  for (const JsonValue& item : parsed->items) {
    if (!item.is_object() || !item.find("role")) return std::nullopt;
  }
  return *std::move(parsed);
}

Result<JsonValue> tool_of(const JsonValue& value) {
  if (!value.is_object()) return bad("a tool is {}; expected an object", value.kind_name());
  const JsonValue* type = value.find("type");
  const JsonValue* function = value.find("function");
  if (type && type->is_string() && type->text == "function" && function) {
    if (!function->is_object()) return bad("a tool's function is {}; expected an object", function->kind_name());
    return value;
  }
  // The flat shape: the three keys are printed even when absent, as the hosted trainer does.
  const JsonValue* name = present(value, "name");
  if (!name || !name->is_string()) return bad("a tool has neither 'type': 'function' with a 'function' nor a 'name'");
  JsonValue described = JsonValue::of_object();
  for (std::string_view key : {"name", "description", "parameters"}) {
    const JsonValue* field = value.find(key);
    described.add(std::string(key), field ? *field : JsonValue());
  }
  if (const JsonValue* strict = present(value, "strict")) described.add("strict", *strict);
  JsonValue tool = JsonValue::of_object();
  tool.add("type", JsonValue::of_string("function"));
  tool.add("function", std::move(described));
  return tool;
}

Status read_tools(const JsonValue& row, std::vector<JsonValue>& tools) {
  const JsonValue* value = present(row, "tools");
  std::string_view field = "tools";
  if (!value) {
    value = present(row, "tool_defs");
    field = "tool_defs";
  }
  if (!value) return ok();
  JsonValue parsed;
  if (value->is_string()) {
    if (value->text.empty()) return ok();
    auto result = parse_json(value->text);
    if (!result) return bad("{} is a string that is {}", field, result.error().message());
    parsed = *std::move(result);
    if (parsed.is_null()) return ok();
    value = &parsed;
  }
  if (!value->is_array()) return bad("{} is {}; expected a list", field, value->kind_name());
  for (size_t i = 0; i < value->items.size(); ++i) {
    auto tool = tool_of(value->items[i]);
    if (!tool) return bad("{}[{}]: {}", field, i, tool.error().message());
    tools.push_back(*std::move(tool));
  }
  return ok();
}

Result<Conversation> read_row(const JsonValue& row, bool texts_may_hold_json) {
  if (!row.is_object()) return bad("the row is {}; expected an object", row.kind_name());
  Conversation conversation;
  auto append = [&](const JsonValue& value, std::string_view field, Role default_role) -> Status {
    auto list = texts_may_hold_json ? list_in_text(value) : std::nullopt;
    return append_messages(list ? *list : value, field, default_role, conversation.messages);
  };
  if (const JsonValue* messages = present(row, "messages")) {
    CAIRN_CHECK_OK(append(*messages, "messages", Role::kAssistant));
  } else {
    const JsonValue* prompt = row.find("prompt");
    const JsonValue* completion = row.find("completion");
    if (!prompt || !completion) {
      if (row.find("conversations")) return bad("it has 'conversations'; expected 'messages' with role and content");
      return bad("it has neither 'messages' nor both 'prompt' and 'completion'");
    }
    CAIRN_CHECK_OK(append(*prompt, "prompt", Role::kUser));
    CAIRN_CHECK_OK(append(*completion, "completion", Role::kAssistant));
  }
  if (conversation.messages.empty()) return bad("it holds no message");
  CAIRN_CHECK_OK(read_tools(row, conversation.tools));
  return conversation;
}

Error located(const Error& error, const std::string& where) {
  return Error(error.code(), where + ": " + error.message(), "docs/formats/sft-data.md lists the shapes a row may have");
}

}  // namespace

std::string_view role_name(Role role) { return kRoleNames[static_cast<size_t>(role)]; }

Result<Conversation> conversation_of(const JsonValue& row, const std::string& where, bool texts_may_hold_json) {
  auto result = read_row(row, texts_may_hold_json);
  if (!result) return located(result.error(), where);
  return result;
}

Result<Conversation> parse_conversation(std::string_view json, const std::string& where) {
  auto row = parse_json(json);
  if (!row) return located(row.error(), where);
  return conversation_of(*row, where);
}

}  // namespace cairn::dataset
