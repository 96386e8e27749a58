// Which token ends a text for a tokenizer in Hugging Face's files; for models whose config.json names none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "dataset/tokenizer.h"

namespace cairn::trainer {

// `eos_token` of the folder's tokenizer_config.json, else the first of the usual names that is a special token of the tokenizer.
// Nothing when there is none of these, also when tokenizer_config.json cannot be read.
std::optional<uint32_t> end_token(const dataset::Tokenizer& tokenizer, const std::string& folder);

}  // namespace cairn::trainer
