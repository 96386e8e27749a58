// The tail of the runs' logs, line by line, for following and for runs without a volume. Bounded: per run only the newest
// lines are kept (the whole log lies on the volume), and all of them only some days after the run ended.
#pragma once

#include <string>
#include <vector>

#include "base/ids.h"
#include "catalog/db.h"

namespace cairn::catalog {

struct LogRow {
  int64_t seq = 0;
  int64_t attempt = 0;
  std::string component;
  Time at;
  std::string line;  // UTF-8 without NUL
};

// Appends in order and returns the sequence of the last line. Two writers of one run cannot both succeed.
Result<int64_t> append_log_lines(Tx& tx, RunId run, int64_t attempt, const std::vector<LogRow>& lines);
Result<std::vector<LogRow>> read_log_lines(Tx& tx, RunId run, int64_t after, const std::string& component, int64_t limit);
// Removes all but the newest `keep` lines.
Result<int64_t> trim_log_lines(Tx& tx, RunId run, int64_t keep);
// Removes the lines of runs that ended before `before`, a few runs at a time; answers how many runs were done.
Result<int64_t> remove_old_logs(Tx& tx, Time before, int64_t runs_max);

}  // namespace cairn::catalog
