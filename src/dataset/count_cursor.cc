#include "dataset/count_cursor.h"

#include <charconv>

#include <fmt/format.h>

#include "dataset/json_value.h"

namespace cairn::dataset {

namespace {

constexpr int64_t kVersion = 1;
constexpr int64_t kCountMax = int64_t{1} << 60;  // so that counting on never overflows

Result<int64_t> count_in(const JsonValue& cursor, std::string_view name) {
  const JsonValue* value = cursor.find(name);
  int64_t number = -1;
  if (value && value->kind == JsonValue::Kind::kNumber) {
    const char* end = value->text.data() + value->text.size();
    auto read = std::from_chars(value->text.data(), end, number);
    if (read.ec != std::errc() || read.ptr != end) number = -1;
  }
  if (number < 0 || number > kCountMax) return Error(Code::kDataCorrupt, fmt::format("the cursor of the training data has no count '{}' that can be", name));
  return number;
}

}  // namespace

std::string write_cursor(const CountCursor& cursor, std::initializer_list<std::pair<std::string_view, int64_t>> counts) {
  std::string text =
      fmt::format(R"({{"version": {}, "kind": "{}", "fingerprint": "{}")", kVersion, cursor.kind, cursor.fingerprint);
  for (const auto& [name, count] : counts) text += fmt::format(R"(, "{}": {})", name, count);
  return text + "}";
}

Result<std::vector<int64_t>> read_cursor(std::string_view text, const CountCursor& expected, const std::string& data,
                                         std::initializer_list<std::string_view> names) {
  auto cursor = parse_json(text);
  if (!cursor) return Error(Code::kDataCorrupt, "the cursor of the training data is " + cursor.error().message());
  CAIRN_TRY(int64_t version, count_in(*cursor, "version"));
  const JsonValue* kind = cursor->find("kind");
  const JsonValue* fingerprint = cursor->find("fingerprint");
  if (version != kVersion || !kind || kind->text != expected.kind || !fingerprint || !fingerprint->is_string()) {
    return Error(Code::kCheckpointMismatch, fmt::format("the checkpoint's cursor is not one of '{}' data", expected.kind),
                 "set ckpt.skip_dataloader = true to begin this data from its start");
  }
  if (fingerprint->text != expected.fingerprint) {
    return Error(Code::kCheckpointMismatch,
                 fmt::format("the checkpoint was made with other training data or another order (fingerprint {}, now {}: {})",
                             fingerprint->text, expected.fingerprint, data),
                 "put back its files and its data.shuffle and data.seed, or set ckpt.skip_dataloader = true");
  }
  std::vector<int64_t> counts;
  for (std::string_view name : names) {
    CAIRN_TRY(int64_t count, count_in(*cursor, name));
    counts.push_back(count);
  }
  return counts;
}

}  // namespace cairn::dataset
