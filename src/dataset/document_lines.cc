// documents_of: the one file that knows simdjson.
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <simdjson.h>

#include "dataset/document_source.h"
#include "dataset/utf8_repair.h"

namespace cairn::dataset {
namespace {

class LineParser {
 public:
  // The text under `key`, valid until the next call; empty when null. `room` is what may be read from the start of the line on.
  Result<std::string_view> text_of(std::string_view line, size_t room, const std::string& key) {
    auto parsed = parse(line, room);
    if (parsed.error() == simdjson::UTF8_ERROR) {
      repair_utf8(line, repaired_, nullptr);
      parsed = parse(repaired_, repaired_.size());
    }
    if (parsed.error() != simdjson::SUCCESS) return invalid(simdjson::error_message(parsed.error()));
    simdjson::dom::object object;
    if (parsed.get(object) != simdjson::SUCCESS) return invalid("it is no JSON object");
    simdjson::dom::element value;
    if (object.at_key(key).get(value) != simdjson::SUCCESS) return invalid(fmt::format("it has no key \"{}\"", key));
    if (value.is_null()) return std::string_view();
    std::string_view text;
    if (value.get(text) != simdjson::SUCCESS) return invalid(fmt::format("\"{}\" is no string", key));
    return text;
  }

 private:
  static Error invalid(std::string_view why) { return Error(Code::kDataInvalid, std::string(why)); }

  simdjson::simdjson_result<simdjson::dom::element> parse(std::string_view line, size_t room) {
    if (room - line.size() >= simdjson::SIMDJSON_PADDING) return parser_.parse(line.data(), line.size(), false);
    padded_.assign(line);
    padded_.append(simdjson::SIMDJSON_PADDING, '\0');
    return parser_.parse(padded_.data(), line.size(), false);
  }

  simdjson::dom::parser parser_;
  std::string padded_, repaired_;
};

Status json_documents(const DocumentBlock& block, const std::string& text_key,
                      const std::function<Status(std::string_view)>& take) {
  LineParser parser;
  uint64_t number = block.first;
  for (size_t start = 0; start < block.bytes.size(); ++number) {
    size_t end = std::min(block.bytes.find('\n', start), block.bytes.size());
    std::string_view line(block.bytes.data() + start, end - start);
    size_t room = block.bytes.size() - start;
    start = end + 1;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (line.size() > kDocumentBytesMax) {
      return Error(Code::kLimitExceeded, fmt::format("{}: line {} has more than {} MiB", block.file, number, kDocumentBytesMax >> 20));
    }
    Result<std::string_view> text = parser.text_of(line, room, text_key);
    if (!text) {
      return Error(text.error().code(), fmt::format("{}: line {}: {}", block.file, number, text.error().message()),
                   "each line is one JSON object with its text under one key: --text-key");
    }
    if (!text->empty()) CAIRN_CHECK_OK(take(*text));
  }
  return ok();
}

}  // namespace

Status documents_of(const DocumentBlock& block, const std::string& text_key,
                    const std::function<Status(std::string_view text)>& take) {
  if (block.json_lines) return json_documents(block, text_key, take);
  size_t start = 0;
  for (size_t end : block.text_ends) {
    std::string_view text(block.bytes.data() + start, end - start);
    start = end;
    if (!text.empty()) CAIRN_CHECK_OK(take(text));
  }
  return ok();
}

}  // namespace cairn::dataset
