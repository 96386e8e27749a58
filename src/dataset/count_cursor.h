// Cursors of fine-tuning and fake data: a few counts in JSON, bound to data by its kind and fingerprint. Private to their sources.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace cairn::dataset {

struct CountCursor {
  std::string kind;
  std::string fingerprint;
};

std::string write_cursor(const CountCursor& cursor, std::initializer_list<std::pair<std::string_view, int64_t>> counts);

// The counts in the order of `names`. checkpoint_mismatch when kind or fingerprint differ (`data` names the present data),
// data_corrupt when it is no such cursor.
Result<std::vector<int64_t>> read_cursor(std::string_view text, const CountCursor& expected, const std::string& data,
                                         std::initializer_list<std::string_view> names);

}  // namespace cairn::dataset
