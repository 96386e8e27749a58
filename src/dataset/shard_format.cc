#include "dataset/shard_format.h"

#include <cmath>

#include <fmt/format.h>

#include "base/whole_number.h"

namespace cairn::dataset {
namespace {

std::string_view take_line(std::string_view& text) {
  size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace

Result<ShardMetadata> parse_shard_metadata(std::string_view text, const std::string& name) {
  ShardMetadata metadata;
  std::string_view first = take_line(text);
  size_t bar = first.rfind('|');
  std::string_view size = bar == std::string_view::npos ? std::string_view() : first.substr(bar + 1);
  bool digits = !size.empty() && size.find_first_not_of("0123456789") == std::string_view::npos;
  if (digits) {
    if (size != "2" && size != "4") {
      return Error(Code::kFormatUnsupported, fmt::format("{} says that a token has {} bytes; 2 and 4 can be read", name, size));
    }
    metadata.token_size = static_cast<uint32_t>(size[0] - '0');
    first = first.substr(0, bar);
  }
  metadata.tokenizer = first;
  std::string_view count = take_line(text);
  if (!count.empty()) {
    metadata.tokens = whole_number<uint64_t>(count);
    if (!metadata.tokens) {
      return Error(Code::kDataCorrupt, fmt::format("{}: its second line is not a number of tokens", name));
    }
  }
  return metadata;
}

std::string format_shard_metadata(const ShardMetadata& metadata) {
  uint64_t tokens = metadata.tokens.value_or(0);
  std::string tokenizer = metadata.tokenizer;
  // The writer's way of saying that it knows no name; the size comes twice.
  if (tokenizer.empty()) tokenizer = fmt::format("Unknown Tokenizer|{}", metadata.token_size);
  for (char& c : tokenizer) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  return fmt::format("{}|{}\n{}\n{}", tokenizer, metadata.token_size, tokens, human_token_count(tokens));
}

std::string human_token_count(uint64_t tokens) {
  auto value = static_cast<double>(tokens);
  int exponent = tokens == 0 ? 0 : static_cast<int>(std::floor(std::log10(value)));
  value /= std::pow(10.0, exponent / 3 * 3);
  int digits = 2 - exponent % 3;
  double unit = std::pow(10.0, digits);
  // 999,999 is "1.00 M", not "1000 k".
  if (std::nearbyint(value * unit) / unit >= std::pow(10.0, exponent % 3 + 1)) {
    ++exponent;
    if (exponent % 3 == 0) value /= 1000;
    digits = 2 - exponent % 3;
  }
  static constexpr std::string_view kPrefixes = "kMGTPE";
  std::string prefix = exponent >= 3 ? std::string(1, kPrefixes[static_cast<size_t>(exponent / 3 - 1)]) : std::string();
  return fmt::format("{:.{}f} {}T", value, digits, prefix);
}

std::string shard_file_name(uint64_t rank, bool shuffled) {
  return shuffled ? fmt::format("{:05}_00000_doc_shuffled.ds", rank) : fmt::format("{:05}_unshuffled.ds", rank);
}

}  // namespace cairn::dataset
