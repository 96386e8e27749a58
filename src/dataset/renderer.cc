#include "dataset/renderer.h"

#include <algorithm>

#include <fmt/format.h>

#include "dataset/renderer_parts.h"

namespace cairn::dataset {

namespace {

// The characters for which Python's str.isspace() holds, as UTF-8.
constexpr std::string_view kWideSpaces[] = {
    "\xC2\x85",     "\xC2\xA0",     "\xE1\x9A\x80", "\xE2\x80\x80", "\xE2\x80\x81", "\xE2\x80\x82", "\xE2\x80\x83",
    "\xE2\x80\x84", "\xE2\x80\x85", "\xE2\x80\x86", "\xE2\x80\x87", "\xE2\x80\x88", "\xE2\x80\x89", "\xE2\x80\x8A",
    "\xE2\x80\xA8", "\xE2\x80\xA9", "\xE2\x80\xAF", "\xE2\x81\x9F", "\xE3\x80\x80"};

bool is_narrow_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r') || (c >= '\x1c' && c <= '\x1f'); }

size_t leading_space(std::string_view text) {
  if (text.empty()) return 0;
  if (is_narrow_space(text.front())) return 1;
  for (std::string_view space : kWideSpaces) {
    if (text.starts_with(space)) return space.size();
  }
  return 0;
}

size_t trailing_space(std::string_view text) {
  if (text.empty()) return 0;
  if (is_narrow_space(text.back())) return 1;
  for (std::string_view space : kWideSpaces) {
    if (text.ends_with(space)) return space.size();
  }
  return 0;
}

}  // namespace

std::string_view left_strip_newlines(std::string_view text) {
  while (text.starts_with('\n')) text.remove_prefix(1);
  return text;
}

std::string_view right_strip_newlines(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  return text;
}

std::string_view strip_newlines(std::string_view text) { return left_strip_newlines(right_strip_newlines(text)); }

std::string_view strip_space(std::string_view text) {
  while (size_t length = leading_space(text)) text.remove_prefix(length);
  while (size_t length = trailing_space(text)) text.remove_suffix(length);
  return text;
}

std::string_view chat_format_name(ChatFormat format) {
  switch (format) {
    case ChatFormat::kQwen3: return "qwen3";
    case ChatFormat::kPrimeQwen3: return "prime-qwen3";
  }
  return "?";
}

std::unique_ptr<const Renderer> make_renderer(const RendererOptions& options) {
  switch (options.format) {
    case ChatFormat::kQwen3: return make_qwen3_renderer(options.enable_thinking);
    case ChatFormat::kPrimeQwen3: return make_prime_qwen3_renderer();
  }
  return nullptr;
}

Status check_chat_tokens(const Tokenizer& tokenizer, Encoder& encoder, const std::string& tokenizer_name) {
  for (std::string_view token : {"<|im_start|>", "<|im_end|>"}) {
    std::vector<uint32_t> ids;
    CAIRN_CHECK_OK(encoder.encode(token, ids));
    auto id = tokenizer.id_of(token);
    if (id && ids.size() == 1 && ids[0] == *id) continue;
    return Error(Code::kConfigInvalid,
                 fmt::format("the tokenizer '{}' has no added token {}, which every turn of a conversation needs", tokenizer_name, token),
                 "name a model whose tokenizer has it, or add it to added_tokens in its tokenizer.json");
  }
  return ok();
}

Status tokenize(const RenderedText& rendered, const RoleMask& mask, Encoder& encoder, TokenizedText& out) {
  out.ids.clear();
  std::vector<size_t> offsets;
  CAIRN_CHECK_OK(encoder.encode(rendered.text, out.ids, offsets));
  out.trainable.assign(out.ids.size(), 0);
  auto body = rendered.bodies.begin();
  for (size_t i = 0; i < offsets.size(); ++i) {
    while (body != rendered.bodies.end() && body->end <= offsets[i]) ++body;
    if (body == rendered.bodies.end()) break;
    if (offsets[i] >= body->begin && mask[static_cast<size_t>(body->role)]) out.trainable[i] = 1;
  }
  return ok();
}

}  // namespace cairn::dataset
