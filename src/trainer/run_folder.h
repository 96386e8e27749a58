// The folder a run writes to: checkpoints/, logs/attempt_<n>/ with the link logs/latest, monitors/ and configs/ with the resolved
// config. Used by the first process of a run, once.
#pragma once

#include <string>

#include "base/result.h"
#include "config/training_config.h"
#include "os/fd.h"

namespace cairn::trainer {

struct RunFolder {
  std::string root;
  std::string attempt_logs;  // logs/attempt_<n>
  os::Fd lock;               // nobody else trains into the folder while it is open

  std::string checkpoints() const { return root + "/checkpoints"; }
  std::string monitors() const { return root + "/monitors"; }
};

// Makes what is missing. busy: another process trains into it. The attempt's number is CAIRN_ATTEMPT where an agent set it, else one more than the highest there is.
Result<RunFolder> prepare_run_folder(const std::string& root);

// Writes configs/<mode>.json, over that of an earlier attempt: once it is sure that this run goes on in this folder.
Status save_resolved_config(const RunFolder& folder, const config::TrainingConfig& config);

// "pretrain" or "sft".
std::string mode_name(config::TrainingMode mode);

}  // namespace cairn::trainer
