// What the renderers share; private to them.
#pragma once

#include <string>
#include <string_view>

#include "dataset/renderer.h"

namespace cairn::dataset {

std::unique_ptr<const Renderer> make_qwen3_renderer(bool enable_thinking);
std::unique_ptr<const Renderer> make_prime_qwen3_renderer();

class TextBuilder {
 public:
  TextBuilder& frame(std::string_view text) {
    rendered_.text += text;
    return *this;
  }
  TextBuilder& body(std::string_view text, Role role) {
    if (text.empty()) return *this;
    size_t begin = rendered_.text.size();
    rendered_.text += text;
    auto& bodies = rendered_.bodies;
    if (!bodies.empty() && bodies.back().end == begin && bodies.back().role == role) {
      bodies.back().end = rendered_.text.size();
    } else {
      bodies.push_back({begin, rendered_.text.size(), role});
    }
    return *this;
  }
  RenderedText finish() { return std::move(rendered_); }

 private:
  RenderedText rendered_;
};

// str.lstrip("\n"), str.rstrip("\n"), str.strip("\n") of Python.
std::string_view left_strip_newlines(std::string_view text);
std::string_view right_strip_newlines(std::string_view text);
std::string_view strip_newlines(std::string_view text);
// str.strip() of Python: all Unicode white space.
std::string_view strip_space(std::string_view text);

}  // namespace cairn::dataset
