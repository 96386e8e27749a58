// Statements over many ids: `in (?3, ?4, …)` with a fixed number of places, so that few statement texts exist. The last
// id is repeated where there are fewer ids. Private to catalog/.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "catalog/db.h"

namespace cairn::catalog {

inline constexpr size_t kIdsPerStatement = 100;

// "(?first, …)" with kIdsPerStatement places.
inline std::string id_places(int first) {
  std::string text = "(";
  for (size_t i = 0; i < kIdsPerStatement; ++i) {
    if (i > 0) text += ", ";
    text += "?" + std::to_string(first + static_cast<int>(i));
  }
  return text + ")";
}

// Runs `statement(values)` for each batch of ids, appended to `head`, and adds up what it answers.
template <class IdType, class Statement>
Result<int64_t> for_id_batches(const std::vector<IdType>& ids, const Values& head, Statement statement) {
  int64_t total = 0;
  for (size_t start = 0; start < ids.size(); start += kIdsPerStatement) {
    Values values = head;
    for (size_t i = 0; i < kIdsPerStatement; ++i) values.emplace_back(ids[std::min(start + i, ids.size() - 1)].hex());
    CAIRN_TRY(int64_t count, statement(values));
    total += count;
  }
  return total;
}

}  // namespace cairn::catalog
