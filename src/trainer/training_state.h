// Where a run stands between two steps: what a checkpoint's state.json keeps besides the tensors and the data cursor.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace cairn::trainer {

struct TrainingState {
  int64_t step = 0;            // optimizer steps made
  int64_t total_tokens = 0;    // padding included
  int64_t total_samples = 0;
  int64_t schedule_index = 0;  // updates that the schedule has counted
  std::map<std::string, double> last_metrics;  // every metric keep_best may name, as far as it was measured
};

}  // namespace cairn::trainer
