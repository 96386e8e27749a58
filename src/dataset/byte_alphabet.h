// The characters that stand for bytes in the vocabularies of byte-level BPE (GPT-2's table): printable bytes are themselves, the
// others follow from U+0100 on.
//
// Pure; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::dataset {

// The character of each byte.
const std::array<char32_t, 256>& byte_characters();
// "Ġthe" for " the".
std::string spell_bytes(std::string_view bytes);
// The bytes of a vocabulary entry; nothing when it holds a character that stands for no byte. REQUIRES: `token` is well-formed UTF-8.
std::optional<std::string> bytes_of_spelling(std::string_view token);

}  // namespace cairn::dataset
