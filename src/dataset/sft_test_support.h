// A tokenizer for tests: a byte is an id, and the few added tokens of the chat formats have ids from 256 on.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "dataset/tokenizer.h"

namespace cairn::dataset {

inline const std::vector<std::string>& byte_tokenizer_added() {
  static const std::vector<std::string> added = {"<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"};
  return added;
}

class ByteTokenizer final : public Tokenizer {
 public:
  uint32_t vocab_size() const override { return 256 + static_cast<uint32_t>(byte_tokenizer_added().size()); }
  std::optional<uint32_t> id_of(std::string_view token) const override {
    const auto& added = byte_tokenizer_added();
    auto found = std::find(added.begin(), added.end(), token);
    if (found == added.end()) return std::nullopt;
    return 256 + static_cast<uint32_t>(found - added.begin());
  }
  bool is_special(uint32_t id) const override { return id >= 256 && id < vocab_size(); }
  std::string decode(std::span<const uint32_t> ids, bool) const override {
    std::string text;
    for (uint32_t id : ids) {
      if (id < 256) {
        text += static_cast<char>(id);
      } else if (id < vocab_size()) {
        text += byte_tokenizer_added()[id - 256];
      }
    }
    return text;
  }
};

class ByteEncoder final : public Encoder {
 public:
  Status encode(std::string_view text, std::vector<uint32_t>& ids) override {
    std::vector<size_t> offsets;
    return encode(text, ids, offsets);
  }
  Status encode(std::string_view text, std::vector<uint32_t>& ids, std::vector<size_t>& offsets) override {
    for (size_t at = 0; at < text.size();) {
      uint32_t id = static_cast<uint8_t>(text[at]);
      size_t length = 1;
      const auto& added = byte_tokenizer_added();
      for (size_t i = 0; i < added.size(); ++i) {
        if (!text.substr(at).starts_with(added[i])) continue;
        id = 256 + static_cast<uint32_t>(i);
        length = added[i].size();
      }
      ids.push_back(id);
      offsets.push_back(at);
      at += length;
    }
    return ok();
  }
};

}  // namespace cairn::dataset
