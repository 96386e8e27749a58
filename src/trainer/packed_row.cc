#include "trainer/packed_row.h"

#include <ATen/Functions.h>
#include <fmt/core.h>

namespace cairn::trainer {
namespace {

Status check_row(const dataset::Row& row, const DecoderSpec& spec) {
  const size_t tokens = row.input_ids.size();
  if (tokens == 0 || row.target_ids.size() != tokens || row.loss_mask.size() != tokens) {
    return Error(Code::kDataInvalid, fmt::format("a row of {} ids has {} targets and {} mask entries", tokens,
                                                 row.target_ids.size(), row.loss_mask.size()));
  }
  int64_t sum = 0;
  for (int32_t length : row.sequence_lengths) {
    if (length <= 0) return Error(Code::kDataInvalid, fmt::format("a row has a sequence of {} tokens", length));
    sum += length;
  }
  if (sum != static_cast<int64_t>(tokens)) {
    return Error(Code::kDataInvalid, fmt::format("a row of {} ids has sequences of {} tokens in all", tokens, sum));
  }
  for (size_t i = 0; i < tokens; ++i) {
    int32_t id = row.input_ids[i];
    if (id >= 0 && id < spec.vocab_size && row.loss_mask[i] != 0) id = row.target_ids[i];
    if (id >= 0 && id < spec.vocab_size) continue;
    return Error(Code::kDataInvalid,
                 fmt::format("the data holds the token id {}, but the model's vocab_size is {}", id, spec.vocab_size),
                 "use the tokenizer and the data that belong to this model");
  }
  return ok();
}

at::Tensor tensor_of(const std::vector<int64_t>& values, c10::Device device) {
  return at::tensor(values, at::TensorOptions().dtype(at::kLong)).to(device);
}

}  // namespace

Result<PackedRow> pack_row(const dataset::Row& row, const DecoderSpec& spec, c10::Device device, bool for_loss) {
  CAIRN_CHECK_OK(check_row(row, spec));
  std::vector<int64_t> ids, positions, counted, targets;
  PackedRow packed;
  packed.starts = {0};
  size_t begin = 0;
  for (int32_t length : row.sequence_lengths) {
    size_t used = static_cast<size_t>(length);
    while (for_loss && used > 0 && row.loss_mask[begin + used - 1] == 0) --used;
    for (size_t i = 0; i < used; ++i) {
      if (row.loss_mask[begin + i] != 0) {
        counted.push_back(static_cast<int64_t>(ids.size()));
        targets.push_back(row.target_ids[begin + i]);
      }
      ids.push_back(row.input_ids[begin + i]);
      positions.push_back(static_cast<int64_t>(i));
    }
    if (used > 0) packed.starts.push_back(static_cast<int64_t>(ids.size()));
    packed.longest = std::max(packed.longest, static_cast<int64_t>(used));
    begin += static_cast<size_t>(length);
  }
  packed.ids = tensor_of(ids, device);
  packed.positions = tensor_of(positions, device);
  packed.counted = tensor_of(counted, device);
  packed.targets = tensor_of(targets, device);
  return packed;
}

}  // namespace cairn::trainer
