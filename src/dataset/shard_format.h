// The text part of a shard (docs/formats/datatrove-shards.md) and the names of its files. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cairn::dataset {

inline constexpr std::string_view kShardEnding = ".ds";
inline constexpr size_t kShardMetadataBytesMax = 64 * 1024;
// The widest vocabulary of 2-byte shards.
inline constexpr uint64_t kNarrowVocabSizeMax = 65'536;

struct ShardMetadata {
  std::string tokenizer;  // name or path, as the writer knew it
  uint32_t token_size = 2;
  std::optional<uint64_t> tokens;
};

// `name` is for messages. data_corrupt, or format_unsupported for another token size than 2 and 4.
Result<ShardMetadata> parse_shard_metadata(std::string_view text, const std::string& name);
std::string format_shard_metadata(const ShardMetadata& metadata);
// "4.12 MT" of 4123456: three digits, as the Python package humanize gives them.
std::string human_token_count(uint64_t tokens);

// "00007_unshuffled.ds", "00007_00000_doc_shuffled.ds".
std::string shard_file_name(uint64_t rank, bool shuffled);

}  // namespace cairn::dataset
