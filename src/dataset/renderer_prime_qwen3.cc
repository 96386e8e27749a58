// The chat format of PrimeIntellect's Qwen3 models: no empty think blocks, reasoning kept in every turn that has it in a field of
// its own, tools and tool calls as XML.
#include <algorithm>
#include <initializer_list>
#include <utility>

#include "dataset/renderer_parts.h"

namespace cairn::dataset {

namespace {

constexpr std::string_view kSystemForTools =
    "You are Qwen, a helpful AI assistant that can interact with a computer to solve tasks.";
constexpr std::string_view kToolsHead = "\n\n# Tools\n\nYou have access to the following functions:\n\n<tools>";
constexpr std::string_view kToolsFoot =
    "\n</tools>\n\nIf you choose to call a function ONLY reply in the following format with NO suffix:\n\n"
    "<tool_call>\n<function=example_function_name>\n<parameter=example_parameter_1>\nvalue_1\n</parameter>\n"
    "<parameter=example_parameter_2>\nThis is the value for the second parameter\nthat can span\nmultiple lines\n"
    "</parameter>\n</function>\n</tool_call>\n\n<IMPORTANT>\nReminder:\n"
    "- Function calls MUST follow the specified format: an inner <function=...></function> block must be nested within "
    "<tool_call></tool_call> XML tags\n"
    "- Required parameters MUST be specified\n"
    "- You may provide optional reasoning for your function call in natural language BEFORE the function call, but NOT after\n"
    "- If there is no function call available, answer the question like normal with your current knowledge and do not tell "
    "the user about function calls\n</IMPORTANT>";

std::string tagged(std::string_view tag, std::string_view text) {
  std::string out = "\n<";
  out.append(tag).append(">").append(text).append("</").append(tag).append(">");
  return out;
}

std::string json_or_text(const JsonValue& value) {
  return value.is_array() || value.is_object() ? python_json(value) : python_text(value);
}

std::string extra_keys(const JsonValue& object, std::initializer_list<std::string_view> handled) {
  std::string out;
  for (size_t i = 0; i < object.keys.size(); ++i) {
    if (std::find(handled.begin(), handled.end(), object.keys[i]) != handled.end()) continue;
    out += tagged(object.keys[i], json_or_text(object.items[i]));
  }
  return out;
}

std::string describe_parameter(const std::string& name, const JsonValue& fields) {
  std::string out = "\n<parameter>" + tagged("name", name);
  if (fields.is_object()) {
    if (const JsonValue* type = fields.find("type")) out += tagged("type", python_text(*type));
    if (const JsonValue* text = fields.find("description")) out += tagged("description", strip_space(python_text(*text)));
    out += extra_keys(fields, {"name", "type", "description"});
  }
  return out + "\n</parameter>";
}

std::string describe_tool(const JsonValue& tool) {
  const JsonValue* function = tool.find("function");
  if (!function || !function->is_object()) function = &tool;
  const JsonValue* name = function->find("name");
  std::string out = "\n<function>" + tagged("name", name ? python_text(*name) : std::string());
  if (const JsonValue* text = function->find("description")) out += tagged("description", strip_space(python_text(*text)));
  out += "\n<parameters>";
  const JsonValue* parameters = function->find("parameters");
  if (parameters && parameters->is_object()) {
    const JsonValue* properties = parameters->find("properties");
    if (properties && properties->is_object()) {
      for (size_t i = 0; i < properties->keys.size(); ++i) out += describe_parameter(properties->keys[i], properties->items[i]);
    }
    out += extra_keys(*parameters, {"type", "properties"});
  }
  out += "\n</parameters>";
  out += extra_keys(*function, {"type", "name", "description", "parameters"});
  return out + "\n</function>";
}

std::string call_text(const ToolCall& call) {
  std::string out = "<tool_call>\n<function=" + call.name + ">\n";
  for (size_t i = 0; i < call.arguments.keys.size(); ++i) {
    out += "<parameter=" + call.arguments.keys[i] + ">\n" + json_or_text(call.arguments.items[i]) + "\n</parameter>\n";
  }
  return out + "</function>\n</tool_call>";
}

class PrimeQwen3Renderer final : public Renderer {
 public:
  RenderedText render(const Conversation& conversation) const override {
    const auto& messages = conversation.messages;
    bool has_system = messages.front().role == Role::kSystem;
    TextBuilder out;
    render_system(conversation, has_system, out);
    size_t begin = has_system ? 1 : 0;
    for (size_t i = begin; i < messages.size(); ++i) {
      const Message& message = messages[i];
      switch (message.role) {
        case Role::kSystem:
        case Role::kUser:
          out.frame("<|im_start|>").frame(role_name(message.role)).frame("\n");
          out.body(message.content, message.role).frame("<|im_end|>\n");
          break;
        case Role::kAssistant: render_assistant(message, out); break;
        case Role::kTool:
          // A tool turn that opens the conversation has no header of its own in this format.
          if (i > begin && messages[i - 1].role != Role::kTool) out.frame("<|im_start|>user\n");
          out.frame("<tool_response>\n").body(message.content, Role::kTool).frame("\n</tool_response>\n");
          if (i + 1 == messages.size() || messages[i + 1].role != Role::kTool) out.frame("<|im_end|>\n");
          break;
      }
    }
    return out.finish();
  }

 private:
  static void render_system(const Conversation& conversation, bool has_system, TextBuilder& out) {
    if (!has_system && conversation.tools.empty()) return;
    out.frame("<|im_start|>system\n");
    if (has_system) {
      out.body(conversation.messages.front().content, Role::kSystem);
    } else {
      out.frame(kSystemForTools);
    }
    if (!conversation.tools.empty()) {
      out.frame(kToolsHead);
      for (const JsonValue& tool : conversation.tools) out.frame(describe_tool(tool));
      out.frame(kToolsFoot);
    }
    out.frame("<|im_end|>\n");
  }

  static void render_assistant(const Message& message, TextBuilder& out) {
    std::string text;
    std::string_view content = strip_space(message.content);
    if (!message.tool_calls.empty()) {
      // This format has no place for reasoning in a turn that calls tools.
      if (!content.empty()) text.append(content).append("\n\n");
      for (size_t i = 0; i < message.tool_calls.size(); ++i) {
        if (i > 0) text += "\n";
        text += call_text(message.tool_calls[i]);
      }
    } else if (message.reasoning) {
      text.append("<think>").append(strip_space(*message.reasoning)).append("</think>");
      if (!content.empty()) text.append("\n").append(content);
    } else {
      text = message.content;
    }
    out.frame("<|im_start|>assistant\n").body(text + "<|im_end|>", Role::kAssistant).frame("\n");
  }
};

}  // namespace

std::unique_ptr<const Renderer> make_prime_qwen3_renderer() { return std::make_unique<const PrimeQwen3Renderer>(); }

}  // namespace cairn::dataset
