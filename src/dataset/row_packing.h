// Fills one row with samples and pads the rest: what fine-tuning and fake data share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "dataset/row_source.h"

namespace cairn::dataset {

class RowBuilder {
 public:
  explicit RowBuilder(size_t length) : length_(length) {
    row_.input_ids.reserve(length);
    row_.target_ids.reserve(length);
    row_.loss_mask.reserve(length);
  }

  // Appends the sample whose ids are `ids` (one more than it has positions) with `trainable` for each of them; what does not fit
  // is cut off.
  void append(std::span<const uint32_t> ids, std::span<const uint8_t> trainable) {
    CAIRN_CHECK(ids.size() >= 2 && trainable.size() == ids.size());
    size_t take = std::min(ids.size() - 1, length_ - row_.input_ids.size());
    for (size_t i = 0; i < take; ++i) {
      row_.input_ids.push_back(static_cast<int32_t>(ids[i]));
      row_.target_ids.push_back(static_cast<int32_t>(ids[i + 1]));
      row_.loss_mask.push_back(trainable[i + 1]);
    }
    row_.sequence_lengths.push_back(static_cast<int32_t>(take));
  }

  // The row, padded with id 0 and mask 0. REQUIRES: something was appended.
  Row finish() {
    CAIRN_CHECK(!row_.sequence_lengths.empty());
    row_.sequence_lengths.back() += static_cast<int32_t>(length_ - row_.input_ids.size());
    row_.input_ids.resize(length_, 0);
    row_.target_ids.resize(length_, 0);
    row_.loss_mask.resize(length_, 0);
    return std::move(row_);
  }

 private:
  size_t length_;
  Row row_;
};

}  // namespace cairn::dataset
