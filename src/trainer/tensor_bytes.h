// Between tensors and the bytes of a safetensors file, block by block. Internal; throws what torch throws.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainer/decoder.h"
#include "trainer/safetensors.h"

namespace cairn::trainer {

// Name, type and shape of a tensor of a type that safetensors knows.
TensorLayout layout_of(const NamedParameter& tensor);
// All tensors in one file, those of fp32 as `type` if given; durable when ok.
Status write_tensors_as(os::FileSystem& files, const std::string& path, const std::vector<NamedParameter>& tensors,
                        std::optional<TensorType> type, const std::map<std::string, std::string>& metadata);
// REQUIRES: same type and shape; `to` is contiguous.
Status read_bytes_into(const SafetensorsFile& file, const TensorLayout& from, at::Tensor to);

}  // namespace cairn::trainer
