// The chat template of the Qwen3 models, branch for branch.
#include <utility>

#include "dataset/renderer_parts.h"

namespace cairn::dataset {

namespace {

constexpr std::string_view kToolsHead =
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>";
constexpr std::string_view kToolsFoot =
    "\n</tools>\n\nFor each function call, return a json object with function name and arguments within "
    "<tool_call></tool_call> XML tags:\n<tool_call>\n"
    "{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>";
constexpr std::string_view kThinkEnd = "</think>", kThinkStart = "<think>";

struct AssistantParts {
  std::string_view reasoning, content;
};

// Reasoning from its own field, else from a think block in the content.
AssistantParts split_assistant(const Message& message) {
  AssistantParts parts{"", message.content};
  if (message.reasoning) {
    parts.reasoning = *message.reasoning;
    return parts;
  }
  std::string_view content = message.content;
  size_t first_end = content.find(kThinkEnd);
  if (first_end == std::string_view::npos) return parts;
  parts.content = left_strip_newlines(content.substr(content.rfind(kThinkEnd) + kThinkEnd.size()));
  std::string_view before = right_strip_newlines(content.substr(0, first_end));
  size_t start = before.rfind(kThinkStart);
  if (start != std::string_view::npos) before.remove_prefix(start + kThinkStart.size());
  parts.reasoning = left_strip_newlines(before);
  return parts;
}

bool is_query(const Message& message) {
  std::string_view content = message.content;
  return message.role == Role::kUser && !(content.starts_with("<tool_response>") && content.ends_with("</tool_response>"));
}

class Qwen3Renderer final : public Renderer {
 public:
  explicit Qwen3Renderer(bool enable_thinking) : enable_thinking_(enable_thinking) {}

  RenderedText render(const Conversation& conversation) const override {
    const auto& messages = conversation.messages;
    TextBuilder out;
    render_system(conversation, out);
    size_t last_query = messages.size() - 1;
    for (size_t i = messages.size(); i-- > 0;) {
      if (!is_query(messages[i])) continue;
      last_query = i;
      break;
    }
    for (size_t i = 0; i < messages.size(); ++i) {
      const Message& message = messages[i];
      bool last = i + 1 == messages.size();
      switch (message.role) {
        case Role::kSystem:
          if (i > 0) render_plain(message, out);
          break;
        case Role::kUser: render_plain(message, out); break;
        case Role::kAssistant: render_assistant(message, i > last_query, last, out); break;
        case Role::kTool:
          if (i == 0 || messages[i - 1].role != Role::kTool) out.frame("<|im_start|>user");
          out.frame("\n<tool_response>\n").body(message.content, Role::kTool).frame("\n</tool_response>");
          if (last || messages[i + 1].role != Role::kTool) out.frame("<|im_end|>\n");
          break;
      }
    }
    return out.finish();
  }

 private:
  static void render_plain(const Message& message, TextBuilder& out) {
    out.frame("<|im_start|>").frame(role_name(message.role)).frame("\n");
    out.body(message.content, message.role).frame("<|im_end|>\n");
  }

  static void render_system(const Conversation& conversation, TextBuilder& out) {
    const Message& first = conversation.messages.front();
    bool has_system = first.role == Role::kSystem;
    if (conversation.tools.empty()) {
      if (has_system) render_plain(first, out);
      return;
    }
    out.frame("<|im_start|>system\n");
    if (has_system) out.body(first.content, Role::kSystem).frame("\n\n");
    out.frame(kToolsHead);
    for (const JsonValue& tool : conversation.tools) out.frame("\n").frame(python_json(tool));
    out.frame(kToolsFoot).frame("<|im_end|>\n");
  }

  void render_assistant(const Message& message, bool after_query, bool last, TextBuilder& out) const {
    AssistantParts parts = split_assistant(message);
    out.frame("<|im_start|>assistant\n");
    if (after_query && (last || !parts.reasoning.empty())) {
      std::string_view reasoning = strip_newlines(parts.reasoning);
      std::string block = "<think>\n" + std::string(reasoning) + "\n</think>\n\n";
      if (reasoning.empty() && !enable_thinking_) {
        out.frame(block);
      } else {
        out.body(block, Role::kAssistant);
      }
      out.body(left_strip_newlines(parts.content), Role::kAssistant);
    } else {
      out.body(parts.content, Role::kAssistant);
    }
    for (size_t i = 0; i < message.tool_calls.size(); ++i) {
      const ToolCall& call = message.tool_calls[i];
      std::string text = i > 0 || !parts.content.empty() ? "\n" : "";
      text += "<tool_call>\n{\"name\": \"" + call.name + "\", \"arguments\": " + python_json(call.arguments) + "}\n</tool_call>";
      out.body(text, Role::kAssistant);
    }
    out.body("<|im_end|>", Role::kAssistant).frame("\n");
  }

  bool enable_thinking_;
};

}  // namespace

std::unique_ptr<const Renderer> make_qwen3_renderer(bool enable_thinking) {
  return std::make_unique<const Qwen3Renderer>(enable_thinking);
}

}  // namespace cairn::dataset
