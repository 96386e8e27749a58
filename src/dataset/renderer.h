// Renderers turn a conversation into the text a model reads, marked with the bodies that may be learnt from; `tokenize` turns that
// into ids and a loss mask.
//
//   qwen3        byte for byte what the chat template of the Qwen3 models gives
//   prime-qwen3  the format of PrimeIntellect's own Qwen3 models: reasoning is kept in every turn, tool calls as XML
//
// The whole text goes through the tokenizer in one pass, as after a template, so ids never differ from those at inference; a
// token belongs to the body in which its first character stands. Renderers are immutable and shared by threads.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dataset/conversation.h"
#include "dataset/tokenizer.h"

namespace cairn::dataset {

enum class ChatFormat { kQwen3, kPrimeQwen3 };

struct RendererOptions {
  ChatFormat format = ChatFormat::kQwen3;
  // qwen3: the model is meant to be asked with thinking off. Then its prompt ends with an empty think block, so that block is
  // written but not learnt.
  bool enable_thinking = true;
};

// What a role wrote, without the frame around it; an assistant's body also holds its tool calls and closing <|im_end|>.
struct BodySpan {
  size_t begin = 0, end = 0;  // bytes of the text
  Role role = Role::kUser;
};

struct RenderedText {
  std::string text;
  std::vector<BodySpan> bodies;  // in order, without overlap
};

class Renderer {
 public:
  virtual ~Renderer() = default;
  virtual RenderedText render(const Conversation& conversation) const = 0;
};

std::unique_ptr<const Renderer> make_renderer(const RendererOptions& options);
// "qwen3", "prime-qwen3".
std::string_view chat_format_name(ChatFormat format);

// A tokenizer that can carry a chat format has <|im_start|> and <|im_end|> as added tokens: else config_invalid, since a model
// would never learn to stop.
Status check_chat_tokens(const Tokenizer& tokenizer, Encoder& encoder, const std::string& tokenizer_name);

// Whose bodies are learnt, by Role.
using RoleMask = std::array<bool, kRoles>;
inline constexpr RoleMask kAssistantOnly = {false, false, true, false};

struct TokenizedText {
  std::vector<uint32_t> ids;
  std::vector<uint8_t> trainable;  // one an id
};

// Replaces what `out` held.
Status tokenize(const RenderedText& rendered, const RoleMask& mask, Encoder& encoder, TokenizedText& out);

}  // namespace cairn::dataset
