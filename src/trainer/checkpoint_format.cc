#include "trainer/checkpoint_format.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "codec/base64.h"
#include "codec/digest.h"
#include "codec/json_depth.h"

namespace cairn::trainer {
namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kFormat = "cairn-training-checkpoint";
constexpr int64_t kVersion = 1;
constexpr size_t kDepthMax = 64;
constexpr int64_t kCountMax = int64_t{1} << 60;  // so that counting on never overflows

bool is_name(std::string_view name) {
  if (name.empty() || name.size() > 255 || name == "." || name == "..") return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
  });
}

bool is_path(std::string_view path) {
  while (true) {
    size_t slash = path.find('/');
    if (!is_name(path.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

// Fields of one JSON object; the first that does not fit makes the whole unreadable.
class Fields {
 public:
  Fields(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json.is_object()) fail("is not an object");
  }
  int64_t count(const char* key) {
    const Json* value = find(key);
    int64_t number = value != nullptr && value->is_number_integer() ? value->get<int64_t>() : -1;
    if (number < 0 || number > kCountMax) return fail(fmt::format("needs a count '{}' up to {}", key, kCountMax)), 0;
    return number;
  }
  std::string text(const char* key) {
    const Json* value = find(key);
    if (value == nullptr || !value->is_string()) return fail(fmt::format("needs a text '{}'", key)), std::string();
    return value->get<std::string>();
  }
  Fields object(const char* key) {
    const Json* value = find(key);
    Fields fields(value == nullptr ? kNothing : *value, fmt::format("{}.{}", where_, key));
    return fields;
  }
  const Json* find(const char* key) const {
    if (!json_.is_object()) return nullptr;
    auto found = json_.find(key);
    return found == json_.end() ? nullptr : &*found;
  }
  void fail(std::string why) {
    if (problem_.empty()) problem_ = where_ + " " + std::move(why);
  }
  Status status() const { return problem_.empty() ? ok() : Status(Error(Code::kDataCorrupt, problem_)); }

 private:
  static const Json kNothing;
  const Json& json_;
  std::string where_;
  std::string problem_;
};
const Json Fields::kNothing;

Result<Json> parse(std::string_view text, size_t bytes_max, const std::string& file) {
  if (text.size() > bytes_max) {
    return Error(Code::kDataCorrupt, fmt::format("{} has {} bytes, more than {}", file, text.size(), bytes_max));
  }
  if (codec::json_deeper_than(text, kDepthMax)) return Error(Code::kDataCorrupt, file + " is nested too deeply");
  Json json = Json::parse(text.begin(), text.end(), nullptr, false);
  if (json.is_discarded() || !json.is_object()) return Error(Code::kDataCorrupt, file + " is not a JSON object");
  Fields head(json, file);
  std::string format = head.text("format");
  int64_t version = head.count("version");
  CAIRN_CHECK_OK(head.status());
  if (format != kFormat || version > kVersion || version < 1) {
    return Error(Code::kFormatUnsupported, fmt::format("{} is '{}' version {}; this trainer reads '{}' up to version {}", file, format,
                                                       version, kFormat, kVersion));
  }
  return json;
}

std::string dump(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

Result<CheckpointFile> parse_file(const Json& json, const std::string& where) {
  Fields fields(json, where);
  CheckpointFile file;
  file.path = fields.text("path");
  file.size = static_cast<uint64_t>(fields.count("size"));
  file.sha256 = fields.text("sha256");
  CAIRN_CHECK_OK(fields.status());
  if (!is_path(file.path)) return Error(Code::kDataCorrupt, where + " has a path that no checkpoint has");
  if (!codec::Digest::from_hex(file.sha256)) return Error(Code::kDataCorrupt, where + " has no SHA-256");
  return file;
}

}  // namespace

std::string write_marker(const CheckpointMarker& marker) {
  Json json;
  json["format"] = kFormat;
  json["version"] = kVersion;
  json["step"] = marker.step;
  json["metrics"] = Json::object();
  for (const auto& [name, value] : marker.metrics) {
    if (std::isfinite(value)) json["metrics"][name] = value;
  }
  json["files"] = Json::array();
  for (const CheckpointFile& file : marker.files) {
    json["files"].push_back({{"path", file.path}, {"size", file.size}, {"sha256", file.sha256}});
  }
  return dump(json);
}

Result<CheckpointMarker> parse_marker(std::string_view text, const std::string& file) {
  CAIRN_TRY(Json json, parse(text, kMarkerBytesMax, file));
  Fields fields(json, file);
  CheckpointMarker marker;
  marker.step = fields.count("step");
  const Json* metrics = fields.find("metrics");
  if (metrics == nullptr || !metrics->is_object()) fields.fail("needs an object 'metrics'");
  const Json* files = fields.find("files");
  if (files == nullptr || !files->is_array() || files->empty() || files->size() > kCheckpointFilesMax) {
    fields.fail(fmt::format("needs 1 to {} 'files'", kCheckpointFilesMax));
  }
  CAIRN_CHECK_OK(fields.status());
  for (const auto& [name, value] : metrics->items()) {
    if (!value.is_number()) return Error(Code::kDataCorrupt, fmt::format("{} has a metric that is no number", file));
    marker.metrics[name] = value.get<double>();
  }
  for (const Json& entry : *files) {
    CAIRN_TRY(CheckpointFile parsed, parse_file(entry, file));
    marker.files.push_back(std::move(parsed));
  }
  return marker;
}

std::string write_state(const CheckpointState& state) {
  Json json;
  json["format"] = kFormat;
  json["version"] = kVersion;
  json["mode"] = state.mode;
  json["progress"] = {{"step", state.step}, {"total_tokens", state.total_tokens}, {"total_samples", state.total_samples}};
  json["scheduler"] = {{"index", state.schedule_index}};
  json["optimizer"] = {{"kind", state.optimizer_kind}, {"steps", state.optimizer_steps}};
  json["data"] = {{"cursor", state.cursor}};
  json["rng"] = {{"torch_cpu", codec::base64_encode(state.torch_generator)}};
  json["config_sha256"] = state.config_sha256;
  json["config"] = state.config;
  json["model_config"] = state.model_config;
  return dump(json);
}

Result<CheckpointState> parse_state(std::string_view text, const std::string& file) {
  CAIRN_TRY(Json json, parse(text, kStateBytesMax, file));
  Fields fields(json, file);
  Fields progress = fields.object("progress");
  Fields scheduler = fields.object("scheduler");
  Fields optimizer = fields.object("optimizer");
  Fields data = fields.object("data");
  Fields rng = fields.object("rng");
  CheckpointState state;
  state.mode = fields.text("mode");
  state.config_sha256 = fields.text("config_sha256");
  state.model_config = fields.text("model_config");
  state.step = progress.count("step");
  state.total_tokens = progress.count("total_tokens");
  state.total_samples = progress.count("total_samples");
  state.schedule_index = scheduler.count("index");
  state.optimizer_kind = optimizer.text("kind");
  state.optimizer_steps = optimizer.count("steps");
  state.cursor = data.text("cursor");
  if (fields.find("config") != nullptr) state.config = fields.text("config");
  std::string generator = rng.text("torch_cpu");
  for (const Fields* part : {&fields, &progress, &scheduler, &optimizer, &data, &rng}) CAIRN_CHECK_OK(part->status());
  auto bytes = codec::base64_decode(generator);
  if (!bytes) return Error(Code::kDataCorrupt, file + " has an rng.torch_cpu that is not base64");
  state.torch_generator = std::move(*bytes);
  return state;
}

}  // namespace cairn::trainer
