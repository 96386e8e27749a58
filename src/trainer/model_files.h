// A model folder as Hugging Face keeps it: config.json, model.safetensors or shards with model.safetensors.index.json.
// Loading is strict: every parameter once, with its shape, and nothing else. Also tensors to and from single
// safetensors files, for checkpoints.
//
// Errors name the file, the tensor and both shapes. Files are written durably, the index last, so that a folder without
// one (or without model.safetensors) is unfinished. Used from one thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "os/file_system.h"
#include "trainer/decoder.h"

namespace cairn::trainer {

inline constexpr uint64_t kShardBytesMax = 5'000'000'000;
inline constexpr size_t kIndexBytesMax = 64u << 20;

// config.json of the folder. data_missing_on_volume when there is none.
Result<DecoderSpec> load_decoder_spec(os::FileSystem& files, const std::string& folder);

// The weights of the folder into the model (F32, F16 or BF16 files). data_missing_on_volume when there are none,
// data_invalid when they are not this model's. Calls parameters_changed.
Status load_weights(os::FileSystem& files, const std::string& folder, Decoder& model);

struct SaveOptions {
  bool bfloat16 = true;  // else fp32
  uint64_t shard_bytes_max = kShardBytesMax;
};
// model.safetensors, or shards and index, into an existing folder that holds neither. Other files (config.json,
// tokenizer) are the caller's.
Status save_weights(os::FileSystem& files, const std::string& folder, const Decoder& model, const SaveOptions& options);

// One file of tensors as they are (fp32, bf16, int64 and the other types of safetensors); on stable storage when ok.
Status write_tensors(os::FileSystem& files, const std::string& path, const std::vector<NamedParameter>& tensors,
                     const std::map<std::string, std::string>& metadata = {{"format", "pt"}});
// Fills the given tensors, all of which the file must hold with their types and shapes, and no others.
// checkpoint_mismatch otherwise. Returns the file's metadata.
Result<std::map<std::string, std::string>> read_tensors(os::FileSystem& files, const std::string& path,
                                                        const std::vector<NamedParameter>& tensors);

}  // namespace cairn::trainer
