// The two JSON files of a training checkpoint (docs/formats/training-checkpoint.md): the marker `.metadata` and `state.json`.
// Parsers check everything they return and give data_corrupt, or format_unsupported for another format or version. Pure; no torch.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cairn::trainer {

inline constexpr size_t kMarkerBytesMax = 1024 * 1024;
inline constexpr size_t kStateBytesMax = 16 * 1024 * 1024;
inline constexpr size_t kCheckpointFilesMax = 1000;

struct CheckpointFile {
  std::string path;  // relative to trainer/: names of [A-Za-z0-9._-] joined by '/'
  uint64_t size = 0;  // bytes
  std::string sha256;  // 64 hex digits
};

struct CheckpointMarker {
  int64_t step = 0;
  std::map<std::string, double> metrics;  // finite
  std::vector<CheckpointFile> files;
};

std::string write_marker(const CheckpointMarker& marker);
Result<CheckpointMarker> parse_marker(std::string_view text, const std::string& file);

struct CheckpointState {
  std::string mode;
  int64_t step = 0;
  int64_t total_tokens = 0;
  int64_t total_samples = 0;
  int64_t schedule_index = 0;
  std::string optimizer_kind;
  int64_t optimizer_steps = 0;
  std::string cursor;
  std::vector<uint8_t> torch_generator;
  std::string config_sha256;
  std::string config;  // as recorded_config gives it; empty in checkpoints that lack it
  std::string model_config;
};

std::string write_state(const CheckpointState& state);
Result<CheckpointState> parse_state(std::string_view text, const std::string& file);

}  // namespace cairn::trainer
